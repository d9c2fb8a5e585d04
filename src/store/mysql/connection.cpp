#include "store/mysql/connection.hpp"

#include <signal.h>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <mariadb/errmsg.h>
#include <mariadb/mysql.h>

#include "base/signals.hpp"
#include "base/text.hpp"

namespace once::mysql {

namespace {

constexpr unsigned connection_killed = 1927;
constexpr unsigned server_shutdown = 1053;
constexpr unsigned idle_too_long = 4031;
constexpr unsigned long oldest_mariadb = 101'000;  // the first with RANDOM_BYTES()
constexpr unsigned long oldest_mysql = 80'001;     // the first with SKIP LOCKED
constexpr std::size_t longest_detail = 160;
// TiDB's default for one row (txn-entry-size-limit), whatever max_allowed_packet is.
constexpr std::size_t most_in_a_tidb_row = 6UZ * 1024 * 1024;
constexpr std::size_t least_packet = 1024UZ * 1024;  // a batch without outcomes is far smaller

// Errors in credentials, databases or TLS, which only a change of configuration can fix.
constexpr std::array does_not_mend = {
    1044U, 1045U, 1049U, 1130U, 1251U, 1698U, unsigned{CR_SSL_CONNECTION_ERROR}, unsigned{CR_AUTH_PLUGIN_CANNOT_LOAD}};

// If a gateway dies in a transaction, its locks are held until the server closes the connection, so the timeout is
// short. READ COMMITTED locks rows but no gaps. Only TiDB executes /*T!…*/: its optimistic transactions would notice
// conflicts only at the commit.
constexpr const char* session_settings =
    "SET SESSION sql_mode='STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',time_zone='+00:00',autocommit=1,"
    "innodb_lock_wait_timeout=1,wait_timeout=120/*M!100303 ,idle_transaction_timeout=10*//*T! "
    ",tidb_txn_mode='pessimistic'*/;"
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;"
    "SELECT @@max_allowed_packet;"
    "SHOW VARIABLES WHERE Variable_name IN('wsrep_on','log_bin','binlog_format','sync_binlog',"
    "'innodb_flush_log_at_trx_commit')";
constexpr std::size_t session_statements = 4;
// Without this, an owner that connects to another Galera node could get an answer that its claim is lost.
constexpr const char* read_what_others_wrote = "SET SESSION wsrep_sync_wait=7";

Error store_error(Retryable retryable, std::string detail) {
  return {.source = ErrorSource::store, .retryable = retryable, .detail = std::move(detail)};
}

unsigned whole_seconds(Duration duration) {
  return static_cast<unsigned>(std::chrono::ceil<std::chrono::seconds>(std::max(duration, Duration(1))).count());
}

// Removes values from a server's message, which may quote what was sent: keys in a duplicate entry, anything in a
// syntax error.
std::string without_values(std::string_view text) {
  text = text.substr(0, std::min(text.find_first_of("'\"`"), text.size()));
  text = text.substr(0, std::min(text.find("0x"), text.size()));
  return std::string(trim(text.substr(0, longest_detail)));
}

void set_options(MYSQL* handle, const Target& target, const ServerSettings& settings) {
  const unsigned connect_timeout = whole_seconds(settings.connect_timeout);
  const unsigned timeout = whole_seconds(settings.timeout);
  mysql_options(handle, MYSQL_OPT_CONNECT_TIMEOUT, &connect_timeout);
  mysql_options(handle, MYSQL_OPT_READ_TIMEOUT, &timeout);
  mysql_options(handle, MYSQL_OPT_WRITE_TIMEOUT, &timeout);
  mysql_options(handle, MYSQL_SET_CHARSET_NAME, "utf8mb4");
  // Otherwise "localhost" would mean a Unix socket, whatever the port.
  const unsigned protocol = MYSQL_PROTOCOL_TCP;
  mysql_options(handle, MYSQL_OPT_PROTOCOL, &protocol);
  const my_bool no = 0;
  const my_bool yes = 1;
  mysql_options(handle, MYSQL_OPT_RECONNECT, &no);
  if (target.ssl_mode == SslMode::disabled) return;
  const auto file = [](const std::string& path) { return path.empty() ? nullptr : path.c_str(); };
  mysql_ssl_set(handle, file(target.ssl_key), file(target.ssl_cert), file(target.ssl_ca), nullptr, nullptr);
  mysql_options(handle, MYSQL_OPT_SSL_ENFORCE, &yes);
  mysql_options(handle, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, target.ssl_mode == SslMode::verify_identity ? &yes : &no);
}

// On initialisation the library ignores SIGPIPE for the whole process, which is the program's decision: restore it.
bool start_library() {
  struct sigaction before{};
  ::sigaction(SIGPIPE, nullptr, &before);
  const bool ready = mysql_library_init(0, nullptr, nullptr) == 0;
  ::sigaction(SIGPIPE, &before, nullptr);
  return ready;
}

}  // namespace

void Connection::Close::operator()(st_mysql* handle) const {
  const PipeSignalBlocked quiet;
  mysql_close(handle);
}

int Connection::descriptor() const {
  return static_cast<int>(mysql_get_socket(handle_.get()));
}

Result<std::unique_ptr<Connection>> Connection::open(const Target& target, const StoreHost& host,
                                                     const ServerSettings& settings) {
  // The library's initialisation is not thread-safe.
  static const bool library_ready = start_library();
  const PipeSignalBlocked quiet;
  MYSQL* const handle = library_ready ? mysql_init(nullptr) : nullptr;
  if (handle == nullptr) return std::unexpected(store_error(Retryable::yes, "MySQL's library could not be started"));
  std::unique_ptr<Connection> connection(new Connection(handle, host, target.procedures));
  set_options(handle, target, settings);
  if (mysql_real_connect(handle, host.name.c_str(), target.user.c_str(), target.password.c_str(),
                         target.database.c_str(), host.port, nullptr,
                         CLIENT_MULTI_STATEMENTS | CLIENT_FOUND_ROWS) == nullptr) {
    const unsigned number = mysql_errno(handle);
    return std::unexpected(store_error(
        std::ranges::find(does_not_mend, number) != does_not_mend.end() ? Retryable::no : Retryable::yes,
        fmt::format("cannot connect to MySQL at {}:{}: {} ({})", host.name, host.port, mysql_error(handle), number)));
  }
  if (auto ready = connection->prepare_session(); !ready) return std::unexpected(std::move(ready.error()));
  return connection;
}

std::string unsupported(const ServerFacts& server) {
  if (server.tidb && server.procedures == Procedures::on) {
    return "the server is TiDB, which has no stored procedures; add procedures=off to the store's URL";
  }
  // The MySQL version that TiDB reports is configurable and says nothing about TiDB.
  if (server.tidb) return {};
  if (server.version < (server.mariadb ? oldest_mariadb : oldest_mysql)) {
    return fmt::format("the server is {} {}; the store needs MariaDB 10.10 or MySQL 8.0 or newer",
                       server.mariadb ? "MariaDB" : "MySQL", server.version_text);
  }
  // InnoDB then refuses every write at READ COMMITTED.
  if (server.binary_log && server.logs_statements) {
    return "the server has binlog_format=STATEMENT, which allows no writes at READ COMMITTED; set it to ROW or MIXED";
  }
  return {};
}

bool refused_lock(const SqlError& error, Held held) {
  return held == Held::refused && error.kind == SqlError::Kind::answered &&
         (error.number == sql_error::lock_nowait || error.number == sql_error::lock_wait_timeout);
}

bool shows_before_durable(const ServerFacts& server) {
  return !server.galera && !server.tidb && !(server.binary_log && server.syncs_binary_log);
}

Result<void> Connection::prepare_session() {
  ServerFacts server{.mariadb = mariadb_connection(handle_.get()) != 0,
                     .procedures = procedures_,
                     .version = mysql_get_server_version(handle_.get()),
                     .version_text = mysql_get_server_info(handle_.get())};
  server.tidb = server.version_text.contains("TiDB");
  // Check this before sending any statement that an old server may not support.
  if (auto problem = unsupported(server); !problem.empty()) {
    return std::unexpected(store_error(Retryable::no, std::move(problem)));
  }
  const auto take = [&](std::size_t, const RowView& row) {
    if (row.size() == 1) max_packet_ = parse_number(row[0].value_or("")).value_or(0);
    if (row.size() != 2) return;
    if (row[0] == "wsrep_on") server.galera = row[1] == "ON";
    if (row[0] == "log_bin") server.binary_log = row[1] == "ON";
    if (row[0] == "sync_binlog") server.syncs_binary_log = row[1] == "1";
    if (row[0] == "innodb_flush_log_at_trx_commit") server.flush_log_at_commit = row[1].value_or("");
    if (row[0] == "binlog_format") server.logs_statements = row[1] == "STATEMENT";
  };
  auto ran = run(session_settings, take, session_statements);
  if (ran && server.galera) ran = run(read_what_others_wrote);
  if (!ran) return std::unexpected(store_error(Retryable::yes, ran.error().detail));
  if (auto problem = unsupported(server); !problem.empty()) {
    return std::unexpected(store_error(Retryable::no, std::move(problem)));
  }
  shows_before_durable_ = mysql::shows_before_durable(server);
  may_forget_commits_ = !server.galera && !server.tidb && server.flush_log_at_commit != "1";
  if (server.tidb) max_packet_ = std::min(max_packet_, most_in_a_tidb_row);
  if (max_packet_ >= least_packet) return {};
  return std::unexpected(store_error(Retryable::no, "the server's max_allowed_packet must be at least 1 MiB"));
}

Connection::Ran Connection::run(const std::string& text, const OnRow& on_row, std::size_t statements) {
  const PipeSignalBlocked quiet;
  MYSQL* const handle = handle_.get();
  std::size_t statement = 0;
  changed_.clear();
  if (mysql_real_query(handle, text.data(), text.size()) != 0) return std::unexpected(last_error(statement));
  while (true) {
    if (MYSQL_RES* const result = mysql_use_result(handle)) {
      const std::unique_ptr<MYSQL_RES, decltype(&mysql_free_result)> owned(result, &mysql_free_result);
      const std::size_t columns = mysql_num_fields(result);
      while (MYSQL_ROW row = mysql_fetch_row(result)) {
        if (on_row) on_row(statement, RowView(row, mysql_fetch_lengths(result), columns));
      }
      if (mysql_errno(handle) != 0) return std::unexpected(last_error(statement));
    } else if (mysql_field_count(handle) != 0) {
      return std::unexpected(last_error(statement));
    }
    changed_.push_back(mysql_affected_rows(handle));
    ++statement;
    const int next = mysql_next_result(handle);
    if (next == 0) continue;
    // If the connection breaks within a result's description, the library reports that there are no more results.
    if (next > 0 || mysql_errno(handle) != 0) return std::unexpected(last_error(statement));
    if (statements == 0 || statement == statements) return {};
    return std::unexpected(
        SqlError{.kind = SqlError::Kind::lost,
                 .number = 0,
                 .statement = statement,
                 .detail = fmt::format("MySQL: the server ended after {} of {} statements", statement, statements)});
  }
}

SqlError Connection::last_error(std::size_t statement) const {
  const unsigned number = mysql_errno(handle_.get());
  const bool by_library =
      (number >= CR_MIN_ERROR && number <= CR_MAX_ERROR) || (number >= CER_MIN_ERROR && number <= CER_MAX_ERROR);
  const bool lost =
      by_library || number == 0 || number == connection_killed || number == server_shutdown || number == idle_too_long;
  return {.kind = lost ? SqlError::Kind::lost : SqlError::Kind::answered,
          .number = number,
          .statement = statement,
          .detail = fmt::format("MySQL error {} ({}): {}", number, mysql_sqlstate(handle_.get()),
                                without_values(mysql_error(handle_.get())))};
}

}  // namespace once::mysql
