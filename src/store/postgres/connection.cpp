#include "store/postgres/connection.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>

#include "base/clock.hpp"
#include "store/postgres/poll.hpp"

namespace once::postgres {

namespace {

constexpr int binary = 1;
constexpr std::size_t most_parameters = 16;

Fault rolled_back(const PGresult* result) {
  const char* const state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const char* const message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  // Errors without a state are libpq's own: the connection broke. Poolers report the same as class 08.
  if (state == nullptr || std::string_view(state).starts_with("08"))
    return {.kind = Fault::Kind::lost, .sqlstate = {}, .detail = "connection to PostgreSQL lost"};
  return {.kind = Fault::Kind::rolled_back, .sqlstate = state, .detail = message == nullptr ? "" : message};
}

}  // namespace

Waited wait_for(int descriptor, short events, Wait wait) {
  std::array<pollfd, 2> watched = {pollfd{.fd = descriptor, .events = events, .revents = 0},
                                   pollfd{.fd = wait.wake, .events = POLLIN, .revents = 0}};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(wait.until - monotonic_now()).count();
    const auto most = std::int64_t{std::numeric_limits<int>::max()};
    const int ready =
        ::poll(watched.data(), wait.wake < 0 ? 1 : 2, static_cast<int>(std::clamp<std::int64_t>(left, 0, most)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return {};
    return {.ready = watched[0].revents, .woken = watched[1].revents != 0};
  }
}

std::string text_of(const Fault& fault) {
  return fault.sqlstate.empty() ? fault.detail : fmt::format("{} ({})", fault.detail, fault.sqlstate);
}

void Connection::Close::operator()(pg_conn* connection) const {
  PQfinish(connection);
}

int Connection::descriptor() const {
  return PQsocket(handle_.get());
}

bool Connection::stale() const {
  pollfd watched{.fd = PQsocket(handle_.get()), .events = POLLIN, .revents = 0};
  return ::poll(&watched, 1, 0) != 0;
}

void Connection::note_sent(int accepted) {
  all_accepted_ = all_accepted_ && accepted != 0;
  ++sent_;
}

void Connection::send(Statement statement, const Parameters& parameters) {
  std::array<const char*, most_parameters> values{};
  std::array<int, most_parameters> lengths{};
  std::array<int, most_parameters> formats{};
  const auto& list = parameters.values();
  for (std::size_t i = 0; i < list.size(); ++i) {
    values.at(i) = list[i].data();
    lengths.at(i) = static_cast<int>(list[i].size());
    formats.at(i) = binary;
  }
  const auto count = static_cast<int>(list.size());
  begin_transaction();
  if (pooled_) {
    note_sent(PQsendQueryParams(handle_.get(), text_of(statement).c_str(), count, nullptr, values.data(),
                                lengths.data(), formats.data(), binary));
  } else {
    note_sent(PQsendQueryPrepared(handle_.get(), name_of(statement), count, values.data(), lengths.data(),
                                  formats.data(), binary));
  }
}

void Connection::begin_transaction() {
  if (transaction_begin_.empty() || std::exchange(begun_, true)) return;
  send_text(transaction_begin_);
}

void Connection::send_confirmation() {
  send_text("SELECT pg_logical_emit_message(true, 'once', '')");
}

// If the wait for the standby is cancelled, the commit succeeds and only this warning reports it. Its text may be in
// any language, so check its function.
void Connection::take_notice(void* connection, const pg_result* notice) {
  const char* const function = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);
  if (function != nullptr && std::string_view(function) == "SyncRepWaitForLSN") {
    static_cast<Connection*>(connection)->unreplicated_ = true;
  }
}

void Connection::send_text(const std::string& sql) {
  note_sent(PQsendQueryParams(handle_.get(), sql.c_str(), 0, nullptr, nullptr, nullptr, nullptr, 0));
}

// The server commits nothing before it has received the end of the pipeline. Closing would still send unsent bytes, so
// discard them first.
std::unexpected<Fault> Connection::lost() {
  broken_ = true;
  if (!all_sent_) ::shutdown(PQsocket(handle_.get()), SHUT_RDWR);
  if (all_sent_) {
    return std::unexpected(Fault{.kind = Fault::Kind::lost, .sqlstate = {}, .detail = "no answer from PostgreSQL"});
  }
  return std::unexpected(
      Fault{.kind = Fault::Kind::rolled_back, .sqlstate = {}, .detail = "connection to PostgreSQL lost"});
}

Connection::Ready Connection::wait_for_result(Wait wait) {
  while (true) {
    const int unsent = all_sent_ ? 0 : PQflush(handle_.get());
    if (unsent < 0) return Ready::no;
    all_sent_ = unsent == 0;
    if (PQisBusy(handle_.get()) == 0) return Ready::yes;
    const short events = all_sent_ ? POLLIN : POLLIN | POLLOUT;
    const Waited waited = wait_for(PQsocket(handle_.get()), events, wait);
    if (waited.ready == 0) return Ready::no;
    if ((waited.ready & ~POLLOUT) == 0 || PQconsumeInput(handle_.get()) != 0) continue;
    // The end of the stream. An error message before it may still be readable.
    return PQisBusy(handle_.get()) == 0 ? Ready::yes : Ready::no;
  }
}

std::optional<Fault> Connection::read_one(std::vector<Rows>& results, Wait wait) {
  if (wait_for_result(wait) == Ready::no) return lost().error();
  PGresult* const result = PQgetResult(handle_.get());
  if (result == nullptr) return lost().error();
  results.emplace_back(result);
  PQclear(PQgetResult(handle_.get()));  // null: the end of this statement's results
  const ExecStatusType status = PQresultStatus(result);
  if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) return std::nullopt;
  if (status == PGRES_PIPELINE_ABORTED) {
    return Fault{.kind = Fault::Kind::rolled_back, .sqlstate = {}, .detail = "skipped"};
  }
  Fault fault = rolled_back(result);
  if (fault.kind == Fault::Kind::lost) return lost().error();
  return fault;
}

std::expected<std::vector<Rows>, Fault> Connection::sync(Wait wait) {
  const std::size_t count = std::exchange(sent_, 0);
  const bool begun = std::exchange(begun_, false);
  unreplicated_ = false;
  const bool accepted = std::exchange(all_accepted_, true) && PQpipelineSync(handle_.get()) != 0;
  all_sent_ = false;
  if (!accepted) return lost();

  std::vector<Rows> results;
  results.reserve(count);
  std::optional<Fault> fault;
  for (std::size_t i = 0; i < count; ++i) {
    auto failed = read_one(results, wait);
    if (!failed) continue;
    // Keep the first error; later ones only report that they were skipped.
    if (!fault) fault = std::move(failed);
    if (broken_) return std::unexpected(*std::move(fault));
  }
  const bool ready = wait_for_result(wait) == Ready::yes;
  const Rows end(ready ? PQgetResult(handle_.get()) : nullptr);
  broken_ = !end.is_sync();
  if (fault) return std::unexpected(*std::move(fault));
  if (broken_) return lost();
  if (unreplicated_) {
    return std::unexpected(Fault{.kind = Fault::Kind::unreplicated,
                                 .sqlstate = {},
                                 .detail = "committed, but the synchronous standby may not have it"});
  }
  if (begun) results.erase(results.begin());
  return results;
}

std::expected<Rows, Fault> Connection::query(const std::string& sql, Wait wait) {
  all_sent_ = false;
  if (PQsendQuery(handle_.get(), sql.c_str()) == 0) return lost();
  std::optional<Rows> last;
  std::optional<Fault> fault;
  while (true) {
    if (wait_for_result(wait) == Ready::no) return lost();
    PGresult* const result = PQgetResult(handle_.get());
    if (result == nullptr) break;
    last.emplace(result);
    const ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_EMPTY_QUERY) continue;
    fault = rolled_back(result);
    if (fault->kind == Fault::Kind::lost) return lost();
  }
  if (fault) return std::unexpected(*std::move(fault));
  if (!last) return lost();
  return *std::move(last);
}

std::expected<std::optional<std::string>, Fault> Connection::notification(Wait wait) {
  while (true) {
    if (PGnotify* const notify = PQnotifies(handle_.get())) {
      std::string payload = notify->extra;
      PQfreemem(notify);
      return payload;
    }
    const Waited waited = wait_for(PQsocket(handle_.get()), POLLIN, wait);
    if (waited.ready == 0) return std::nullopt;
    if (PQconsumeInput(handle_.get()) == 0) return lost();
  }
}

}  // namespace once::postgres
