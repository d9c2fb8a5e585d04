// Opens a connection: tries every host in turn, then configures the session.
#include <algorithm>
#include <cctype>
#include <utility>

#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/poll.hpp"
#include "store/postgres/schema.hpp"
#include "store/server/store_url.hpp"

namespace once::postgres {

struct Target {
  std::vector<std::pair<std::string, std::string>> options;

  const std::string* find(std::string_view name) const {
    const auto found = std::ranges::find(options, name, [](const auto& pair) { return std::string_view(pair.first); });
    return found == options.end() ? nullptr : &found->second;
  }
  void set(std::string_view name, std::string_view value) {
    std::erase_if(options, [&](const auto& pair) { return pair.first == name; });
    options.emplace_back(name, value);
  }
  void set_if_missing(std::string_view name, std::string_view value) {
    if (find(name) == nullptr) options.emplace_back(name, value);
  }
};

namespace {

constexpr int oldest_server = 130'000;  // the first with built-in gen_random_uuid()

// An insert of the same id by another gateway is waited for until it commits, which may take long on a busy disk.
constexpr Duration lock_timeout = std::chrono::milliseconds(500);

Error error_of(std::string detail, Retryable retryable) {
  return {.source = ErrorSource::store, .retryable = retryable, .detail = std::move(detail)};
}

// libpq's messages about a URL repeat it, including the password.
Result<Target> parse(const std::string& url) {
  PQconninfoOption* const options = PQconninfoParse(url.c_str(), nullptr);
  if (options == nullptr) {
    return std::unexpected(Error{.source = ErrorSource::config,
                                 .retryable = Retryable::no,
                                 .detail = "PostgreSQL's client library does not understand the store's URL"});
  }
  Target target;
  for (const PQconninfoOption* option = options; option->keyword != nullptr; ++option) {
    if (option->val != nullptr) target.options.emplace_back(option->keyword, option->val);
  }
  PQconninfoFree(options);
  target.set_if_missing("application_name", "once");
  target.set("client_encoding", "UTF8");
  // Detect a server that vanished without closing the connection, also on idle listening connections.
  target.set_if_missing("keepalives_idle", "15");
  target.set_if_missing("keepalives_interval", "5");
  target.set_if_missing("keepalives_count", "3");
  return target;
}

// One target per host. libpq would try all itself, but would wait for a dead host as long as the kernel does.
std::vector<Target> hosts_of(const Target& target) {
  const std::string* const hosts = target.find("host");
  if (hosts == nullptr || !hosts->contains(',') || target.find("hostaddr") != nullptr) return {target};
  const std::string* const port_list = target.find("port");
  const std::vector<std::string_view> ports = split(port_list == nullptr ? std::string_view() : *port_list, ',');
  std::vector<Target> targets;
  for (const std::string_view host : split(*hosts, ',')) {
    Target& each = targets.emplace_back(target);
    each.set("host", host);
    each.set("port", ports.size() == 1 ? ports.front() : ports[std::min(targets.size(), ports.size()) - 1]);
  }
  return targets;
}

// The five characters in "…FATAL:  28P01: password authentication failed…", if present.
std::string_view sqlstate_in(std::string_view message) {
  constexpr std::size_t length = 5;
  const auto is_code = [](unsigned char c) { return std::isdigit(c) != 0 || std::isupper(c) != 0; };
  for (std::size_t at = message.find(":  "); at != std::string_view::npos; at = message.find(":  ", at + 1)) {
    const std::string_view code = message.substr(at + 3, length);
    if (code.size() == length && std::ranges::all_of(code, is_code) &&
        message.substr(at + 3 + length).starts_with(": "))
      return code;
  }
  return {};
}

bool mends_itself(PGconn* connection) {
  if (PQconnectionNeedsPassword(connection) != 0) return false;
  const std::string_view state = sqlstate_in(PQerrorMessage(connection));
  // Wrong credentials, no such database, or no right to connect are permanent.
  return !state.starts_with("28") && state != "3D000" && state != "42501";
}

// The first line of libpq's message: hints and source locations follow it.
std::string why(PGconn* connection) {
  const std::string_view message = PQerrorMessage(connection);
  return std::string(message.substr(0, message.find('\n')));
}

std::string milliseconds(Duration duration) {
  return fmt::format("{}", duration.count());
}

// Plans must not depend on the table's size when they were made: a plan that was best for an empty table reads all of a
// full one. With these settings, rows are found by their ids. `local`: for the transaction only.
std::string session_sql(const ServerSettings& settings, bool local) {
  const std::vector<std::pair<std::string_view, std::string>> values = {
      // Shorter than our own timeout: an answer that the statement was cancelled is better than none.
      {"statement_timeout", milliseconds(settings.timeout * 9 / 10)},
      {"lock_timeout", milliseconds(lock_timeout)},
      {"idle_in_transaction_session_timeout", milliseconds(settings.timeout)},
      {"plan_cache_mode", "force_generic_plan"},
      {"enable_seqscan", "off"},
      {"enable_bitmapscan", "off"},
      {"enable_nestloop", "off"},
      {"enable_mergejoin", "off"},
      {"enable_hashjoin", "on"},
      {"jit", "off"},
      {"TimeZone", "UTC"},
  };
  std::string sql =
      "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' "
      "ELSE current_setting('synchronous_commit') END, {0})";
  for (const auto& [name, value] : values) sql += fmt::format(", set_config('{}', '{}', {{0}})", name, value);
  // The isolation level cannot be changed inside a transaction.
  if (!local) sql += ", set_config('default_transaction_isolation', 'read committed', {0})";
  return fmt::format(fmt::runtime(sql), local);
}

Error schema_error(const Fault& fault) {
  if (fault.sqlstate == "42P01") {
    return error_of(
        "the database has no Once schema in the search path of this user; to create it: once schema postgres --apply "
        "URL",
        Retryable::no);
  }
  return error_of(fmt::format("the Once schema cannot be used: {}", text_of(fault)),
                  fault.sqlstate.starts_with("42") ? Retryable::no : Retryable::yes);
}

}  // namespace

Result<Connection::Handle> Connection::connect_to(const Target& target, Wait wait) {
  std::vector<const char*> names;
  std::vector<const char*> values;
  for (const auto& [name, value] : target.options) {
    names.push_back(name.c_str());
    values.push_back(value.c_str());
  }
  names.push_back(nullptr);
  values.push_back(nullptr);
  Handle handle(PQconnectStartParams(names.data(), values.data(), 0));
  if (!handle) return std::unexpected(error_of("out of memory", Retryable::yes));
  PQsetErrorVerbosity(handle.get(), PQERRORS_VERBOSE);  // includes the SQLSTATE
  PQsetNoticeProcessor(handle.get(), [](void*, const char*) {}, nullptr);
  PostgresPollingStatusType status =
      PQstatus(handle.get()) == CONNECTION_BAD ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING;
  while (status != PGRES_POLLING_OK && status != PGRES_POLLING_FAILED) {
    const short events = status == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    if (wait_for(PQsocket(handle.get()), events, wait).ready == 0) {
      return std::unexpected(error_of("no answer from PostgreSQL while connecting", Retryable::yes));
    }
    status = PQconnectPoll(handle.get());
  }
  if (status == PGRES_POLLING_OK) return handle;
  return std::unexpected(error_of(why(handle.get()), mends_itself(handle.get()) ? Retryable::yes : Retryable::no));
}

Result<Connection::Handle> Connection::connect_to_any(const std::string& url, const ServerSettings& settings,
                                                      Wait wait) {
  const auto target = parse(url);
  if (!target) return std::unexpected(target.error());
  Error worst = error_of("no host", Retryable::yes);
  const auto hosts = hosts_of(*target);
  std::size_t left = hosts.size();
  for (const Target& each : hosts) {
    const auto until = monotonic_now() + time_to_connect(settings, wait.until, left--);
    auto handle = connect_to(each, {.until = until, .wake = wait.wake});
    if (handle) return handle;
    if (worst.retryable == Retryable::yes) worst = std::move(handle.error());
  }
  return std::unexpected(std::move(worst));
}

// Detects a pooler: it invents a separate backend process id for each client.
Result<void> Connection::find_pooler(Wait wait) {
  const std::chrono::nanoseconds sent = monotonic_now();
  const auto rows = query(
      "SELECT pg_backend_pid(), current_setting('default_transaction_isolation'), "
      "(date_part('epoch', statement_timestamp()) * 1000)::bigint",
      wait);
  if (!rows) return std::unexpected(error_of(text_of(rows.error()), Retryable::yes));
  pooled_ = rows->bytes(0, 0) != fmt::to_string(PQbackendPID(handle_.get()));
  if (const auto now = parse_number(rows->bytes(0, 2))) clock_.learn(Time(Duration(*now)), sent);
  if (!pooled_ || rows->bytes(0, 1) == "read committed") return {};
  return std::unexpected(
      error_of("behind a pooler the database must have default_transaction_isolation = 'read committed'; to set it for "
               "the gateway alone: ALTER ROLE … SET default_transaction_isolation = 'read committed'",
               Retryable::no));
}

Result<void> Connection::check_schema(Wait wait) {
  send_text(std::string(version_sql));
  const auto rows = sync(wait);
  if (!rows) return std::unexpected(schema_error(rows.error()));
  const SchemaVersion found = version_of(rows->back());
  if (fits(found, schema_revision) == SchemaFits::yes) return {};
  return std::unexpected(error_of(why_not(found, schema_revision, how_to_apply), Retryable::no));
}

Result<void> Connection::set_session(const ServerSettings& settings, Wait wait) {
  if (pooled_) {
    transaction_begin_ = session_sql(settings, true);
    return {};
  }
  send_text(session_sql(settings, false));
  for (const Statement statement : all_statements) {
    note_sent(PQsendPrepare(handle_.get(), name_of(statement), text_of(statement).c_str(), 0, nullptr));
  }
  const auto prepared = sync(wait);
  if (!prepared) return std::unexpected(schema_error(prepared.error()));
  return {};
}

std::string unverified_host(const std::string& url) {
  auto target = parse(url);
  if (!target) return {};
  PQconninfoOption* const defaults = PQconndefaults();
  for (const PQconninfoOption* option = defaults; option != nullptr && option->keyword != nullptr; ++option) {
    if (option->val != nullptr) target->set_if_missing(option->keyword, option->val);
  }
  PQconninfoFree(defaults);
  const std::string* const mode = target->find("sslmode");
  if (mode != nullptr && (*mode == "verify-full" || *mode == "verify-ca")) return {};
  for (const Target& each : hosts_of(*target)) {
    const std::string* const address = each.find("hostaddr");
    const std::string* const host = address != nullptr ? address : each.find("host");
    if (host != nullptr && !is_local(*host)) return *host;
  }
  return {};
}

std::string unsupported(int version) {
  if (version >= oldest_server) return {};
  return fmt::format("the server is PostgreSQL {}.{}; the store needs version {} or newer", version / 10'000,
                     version % 10'000, oldest_server / 10'000);
}

Result<void> Connection::set_up(const ServerSettings& settings, Use use, Wait wait) {
  PQsetErrorVerbosity(handle_.get(), PQERRORS_DEFAULT);
  PQsetnonblocking(handle_.get(), 1);
  PQsetNoticeReceiver(handle_.get(), &Connection::take_notice, this);
  if (auto problem = unsupported(PQserverVersion(handle_.get())); !problem.empty()) {
    return std::unexpected(error_of(std::move(problem), Retryable::no));
  }
  const char* const encoding = PQparameterStatus(handle_.get(), "server_encoding");
  unicode_ = encoding != nullptr && std::string_view(encoding) == "UTF8";
  if (auto found = find_pooler(wait); !found) return found;
  if (use == Use::plain) return {};
  PQenterPipelineMode(handle_.get());
  const auto usable = check_schema(wait);
  return usable ? set_session(settings, wait) : usable;
}

Result<std::unique_ptr<Connection>> Connection::open(const std::string& url, const ServerSettings& settings, Use use,
                                                     int wake, std::chrono::nanoseconds until) {
  auto handle = connect_to_any(url, settings, {.until = until, .wake = wake});
  if (!handle) return std::unexpected(std::move(handle.error()));
  std::unique_ptr<Connection> connection(new Connection(std::move(*handle)));
  until = std::min<std::chrono::nanoseconds>(until, monotonic_now() + settings.timeout);
  const auto ready = connection->set_up(settings, use, {.until = until, .wake = wake});
  if (!ready) return std::unexpected(ready.error());
  return connection;
}

}  // namespace once::postgres
