// Executes one batch at the server. A round is one transaction of two round trips: rows are read (for owners' ops with
// a lock), decided here by the same functions as in every store (decision.hpp, verbs.hpp), and written. A claim without
// a row is inserted, and its owner is read back; a claim that writes nothing locks nothing. Rows that another
// transaction holds are skipped, and retried for a moment in rounds of their own.
// A server that cannot skip them (Held::refused) reports that one of the rows is held; then each is locked by a
// statement of its own, and the one that fails names the row to leave out.
//
// A server may show a commit to others before it is on disk (Connection::shows_before_durable()). There, data that was
// only read is returned after a later commit: one of the batch itself, or an extra one.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/mysql/connection.hpp"
#include "store/mysql/statements.hpp"
#include "store/server/server_store.hpp"

namespace once::mysql {

// Notifies batches that wait for a row when another batch of this store has ended. Other holders of a row do not
// notify, so the waits are short.
class Turns {
 public:
  void ended();
  void wait(Duration at_most);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t ends_ = 0;
};

// A cache of rows that are known to be on disk, so that replaying them needs no commit. A newer row replaces an older
// one in its slot.
class DurableRows {
 public:
  // Thread-safe. A row is identified by its operation, its claim and its state.
  bool has(const OperationId& id, const Record& record) const;
  void add(const OperationId& id, const Record& record);

 private:
  static constexpr std::size_t places = 1UZ << 15U;
  std::vector<std::atomic<std::uint64_t>> rows_ = std::vector<std::atomic<std::uint64_t>>(places);
};

class Batch {
 public:
  // Shared by the batches of one store.
  struct Shared {
    ServerCounts& counts;
    Turns& turns;
    DurableRows& durable;
  };
  enum class Ended : std::uint8_t {
    all_answered,
    not_begun,  // the connection broke before anything was written: retry the rest on another one
    broken,     // it broke during a write: all ops are answered, the written ones as unavailable
    unfit,      // this server does not accept writes now: retry the rest on another one
  };

  // Ops sorted by id. Answered ops stay answered; run() again continues with the rest.
  Batch(std::span<Op* const> ops, const Shared& shared, std::chrono::nanoseconds deadline);

  Ended run(Connection& connection);
  // Answers the remaining ops.
  void fail_rest(StoreFault fault, std::string_view why);
  // The last error.
  const std::string& last_error() const { return last_error_; }

 private:
  enum class Read : std::uint8_t {
    plain,   // as committed
    locked,  // locked for writing
    both,    // to distinguish a locked row from a missing one
  };
  enum class Change : std::uint8_t { none, insert, renew, finish, replace, remove, append };

  struct Item {
    Op* op;
    Read read;
    unsigned held_rounds = 0;  // rounds in which another transaction held the row
    std::optional<Row> seen{};
    std::optional<Row> locked{};
    std::optional<Nonce> streamed_by{};  // the owner of the chunks that were read
    Change change = Change::none;
    NewRow written{};
    SeenRow was{};
    std::size_t lock_statement = 0;
    bool left_out = false;      // not locked in this round: another transaction holds it
    std::size_t statement = 0;  // the statement that changes it
    bool answered = false;
    // The row behind the answer, if it was only read and may not be on disk yet. Without its outcome.
    std::optional<Record> unconfirmed{};
  };
  enum class Step : std::uint8_t { on, again, leave };
  struct Stop {
    Step step = Step::on;
    Ended ended = Ended::all_answered;
  };

  Stop read_rows(Connection& connection);
  Stop write_rows(Connection& connection);
  Stop confirm(Connection& connection);
  Stop after_error(Connection& connection, const SqlError& error, const Script& script);
  bool roll_back(Connection& connection);
  void wait_for_held_rows();
  Script reading(Held held);
  // Excludes the row that this statement could not lock; if it locks several rows, the next try locks each separately.
  // Returns whether the statement locks any row.
  bool leave_out(std::size_t lock_statement);
  Script writing(const Connection& connection);
  std::int64_t claims_until() const;
  void take_row(const RowView& view, Script::Part part);
  void take_clock(const RowView& view);
  void take_chunk(const RowView& view);
  Item* find(const OperationId& id);

  void settle(Item& item);
  void settle_claim(Item& item);
  void settle_owner(Item& item);
  void settle_owned(Item& item, Row row);
  void settle_append(Item& item);
  void settle_read(Item& item);
  void settle_inserted();
  void answer(Item& item, OpStatus status);
  void answer_read(Item& item, const Record& read, OpStatus status);
  void note_read(Item& item, const Record& read) const;
  void note_committed();
  enum class Wrote : std::uint8_t { no, yes };
  Wrote answer_written(const Connection& connection);
  bool all_answered() const;
  void write_item(Script& script, Item& item) const;
  static bool fits(const Connection& connection, const OutcomeBytes& bytes);
  static bool drop_too_large_outcome(const Connection& connection, Item& item);

  std::vector<Item> items_;
  const Shared shared_;
  const std::chrono::nanoseconds deadline_;
  unsigned rounds_ = 0;
  std::int64_t clock_us_ = 0;
  std::chrono::nanoseconds clock_asked_{};  // when the clock was asked for
  struct {
    std::size_t statement = 0;
    std::size_t count = 0;
  } finishes_;  // in the last script
  std::string last_error_;
  bool in_transaction_ = false;
  bool one_by_one_ = false;     // a separate statement for each lock
  bool confirms_ = false;       // this server shows commits before they are on disk
  bool unreadable_ = false;     // a row could not be parsed
  bool maybe_written_ = false;  // a commit failed with an unknown result
};

}  // namespace once::mysql
