#include "store/mysql/connector.hpp"

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/text.hpp"
#include "store/mysql/schema.hpp"

namespace once::mysql {

namespace {

Error wrong_schema(std::string detail) {
  return {.source = ErrorSource::store, .retryable = Retryable::no, .detail = std::move(detail)};
}

Result<void> check_schema(Connection& connection) {
  std::optional<SchemaVersion> found;
  const auto ran =
      connection.run("SELECT * FROM once_schema", [&](std::size_t, const RowView& row) { found = version_of(row); });
  if (!ran && ran.error().number != sql_error::no_such_table) {
    return std::unexpected(
        Error{.source = ErrorSource::store, .retryable = Retryable::yes, .detail = ran.error().detail});
  }
  if (!found) return std::unexpected(wrong_schema(fmt::format("the database has no Once schema: {}", how_to_apply)));
  if (fits(*found, schema_revision) == SchemaFits::yes) return {};
  return std::unexpected(wrong_schema(why_not(*found, schema_revision, how_to_apply)));
}

}  // namespace

Result<std::unique_ptr<Connection>> Connector::connect(std::chrono::nanoseconds until) {
  const std::size_t first = first_.load(std::memory_order_relaxed);
  std::optional<Error> reported;  // the first permanent error, or else the last one
  bool may_pass = false;
  ServerSettings settings = settings_;
  for (std::size_t i = 0; i < target_.hosts.size() && (i == 0 || monotonic_now() < until); ++i) {
    settings.connect_timeout = time_to_connect(settings_, until, target_.hosts.size() - i);
    const std::size_t at = (first + i) % target_.hosts.size();
    auto connection = Connection::open(target_, target_.hosts[at], settings);
    Result<void> usable =
        connection ? check_schema(**connection) : Result<void>(std::unexpected(std::move(connection.error())));
    if (usable) {
      first_.store(at, std::memory_order_relaxed);
      max_packet_.store((*connection)->max_packet(), std::memory_order_relaxed);
      return connection;
    }
    may_pass = may_pass || usable.error().retryable == Retryable::yes;
    if (!reported || reported->retryable == Retryable::yes) reported = std::move(usable.error());
  }
  ONCE_ASSERT(reported.has_value());
  reported->retryable = may_pass ? Retryable::yes : Retryable::no;
  return std::unexpected(*std::move(reported));
}

void Connector::avoid(const Connection& connection) {
  const std::size_t first = first_.load(std::memory_order_relaxed);
  if (target_.hosts[first] == connection.host()) {
    first_.store((first + 1) % target_.hosts.size(), std::memory_order_relaxed);
  }
}

}  // namespace once::mysql
