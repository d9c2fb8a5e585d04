// One connection to MySQL or MariaDB. Calls block, with time limits. Statements are sent as text, several per round
// trip; their values are numbers, hex and escaped bytes (statements.hpp).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "store/mysql/target.hpp"
#include "store/server/settings.hpp"

struct st_mysql;  // NOLINT(readability-identifier-naming): the library's name

namespace once::mysql {

// The server error numbers that the store handles.
namespace sql_error {
inline constexpr unsigned disk_full = 1021;
inline constexpr unsigned out_of_memory = 1041;
inline constexpr unsigned not_ready = 1047;   // Galera: this node has left the cluster
inline constexpr unsigned null_value = 1048;  // claims that came too late, see Script::insert()
inline constexpr unsigned query_interrupted = 1317;
inline constexpr unsigned table_full = 1114;
inline constexpr unsigned no_such_table = 1146;
inline constexpr unsigned error_during_commit = 1180;
inline constexpr unsigned lock_wait_timeout = 1205;
inline constexpr unsigned deadlock = 1213;  // Galera: also if another node was first
inline constexpr unsigned read_only_option = 1290;
inline constexpr unsigned read_only_transaction = 1792;
inline constexpr unsigned read_only_mode = 1836;
inline constexpr unsigned lock_nowait = 3572;  // MariaDB reports lock_wait_timeout instead
// TiDB: it has rolled the transaction back, or does not report whether it committed.
inline constexpr unsigned tidb_write_conflict_for_update = 8002;
inline constexpr unsigned tidb_schema_changed = 8028;
inline constexpr unsigned tidb_write_conflict = 9007;
}  // namespace sql_error

struct SqlError {
  enum class Kind : std::uint8_t {
    answered,  // the server reported an error; the connection is still usable
    lost,      // no answer came: the statements may have been executed
  };
  Kind kind = Kind::answered;
  unsigned number = 0;
  std::size_t statement = 0;  // the index of the statement, from 0; all before it were executed
  std::string detail;         // number, SQLSTATE, and the part of the text that cannot contain values
};

// The properties that decide whether a server can be used.
struct ServerFacts {
  bool mariadb = false;
  bool tidb = false;
  Procedures procedures = Procedures::on;  // as set in the URL
  unsigned long version = 0;               // as the library encodes it: 101106 is 10.11.6
  std::string version_text{};
  bool binary_log = false;
  bool logs_statements = false;  // binlog_format=STATEMENT
  bool galera = false;
  bool syncs_binary_log = false;      // sync_binlog=1
  std::string flush_log_at_commit{};  // innodb_flush_log_at_trx_commit
};
// Why the server cannot be used; empty: it can.
std::string unsupported(const ServerFacts& server);
// Whether other transactions can read a commit before it is on disk. InnoDB shows it before its log is flushed, unless
// a synced binary log comes first. In Galera every node has it by then, in TiDB most replicas.
bool shows_before_durable(const ServerFacts& server);

// How a SELECT FOR UPDATE treats rows that another transaction holds. TiDB has no SKIP LOCKED.
enum class Held : std::uint8_t {
  skipped,
  refused,  // it fails at once (NOWAIT) with sql_error::lock_nowait or lock_wait_timeout
};

// Whether a SELECT FOR UPDATE failed because of such a row.
bool refused_lock(const SqlError& error, Held held);

// A row of a result; null is nullopt.
class RowView {
 public:
  RowView(char** values, const unsigned long* lengths, std::size_t size)
      : values_(values), lengths_(lengths), size_(size) {}
  std::size_t size() const { return size_; }
  std::optional<std::string_view> operator[](std::size_t column) const {
    if (column >= size_ || values_[column] == nullptr) return std::nullopt;
    return std::string_view(values_[column], lengths_[column]);
  }

 private:
  char** values_;
  const unsigned long* lengths_;
  std::size_t size_;
};

class Connection {
 public:
  // Called with the index of the statement that returned the row.
  using OnRow = std::function<void(std::size_t, const RowView&)>;
  using Ran = std::expected<void, SqlError>;

  // The session is configured; the schema has not been checked.
  static Result<std::unique_ptr<Connection>> open(const Target& target, const StoreHost& host,
                                                  const ServerSettings& settings);

  // Sends all statements in `text` in one round trip. Execution stops at the first that fails. If the number of results
  // differs from `statements` (0: any number), the connection counts as lost.
  Ran run(const std::string& text, const OnRow& on_row = {}, std::size_t statements = 1);

  int descriptor() const;

  // The number of rows that a statement of the last run changed, or found already changed.
  std::uint64_t changed(std::size_t statement) const { return statement < changed_.size() ? changed_[statement] : 0; }

  const StoreHost& host() const { return host_; }
  Held held() const { return procedures_ == Procedures::on ? Held::skipped : Held::refused; }
  bool shows_before_durable() const { return shows_before_durable_; }
  bool may_forget_commits() const { return may_forget_commits_; }
  // The longest text that the server accepts.
  std::size_t max_packet() const { return max_packet_; }

 private:
  struct Close {
    void operator()(st_mysql* handle) const;
  };
  Connection(st_mysql* handle, StoreHost host, Procedures procedures)
      : handle_(handle), host_(std::move(host)), procedures_(procedures) {}

  Result<void> prepare_session();
  SqlError last_error(std::size_t statement) const;

  std::unique_ptr<st_mysql, Close> handle_;
  StoreHost host_;
  Procedures procedures_;
  std::size_t max_packet_ = 0;
  bool shows_before_durable_ = false;
  bool may_forget_commits_ = false;
  std::vector<std::uint64_t> changed_;
};

}  // namespace once::mysql
