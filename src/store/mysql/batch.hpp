// A batch at the server. A round is one transaction of two round trips: the rows are read, those of owners under lock,
// then decided upon here by the same functions as in every store (decision.hpp, verbs.hpp), then written. A claim that
// finds nothing is inserted, and whose it became is read back; a claim that writes nothing locks nothing. What another
// transaction holds is skipped, not waited for, and tried again for a moment in rounds of its own.
//
// A server may show a commit to others before it is on disk (Connection::shows_before_durable()). What is only read
// there is told after a commit that came later: one of the batch itself, or one made for this.
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

// Tells batches of one store that wait for a row that another of them has come to its end. Whoever else holds a row
// tells nobody; so nobody waits for long.
class Turns {
 public:
  void ended();
  void wait(Duration at_most);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t ends_ = 0;
};

// Rows that are known to be on disk, so that replaying one again needs no commit. Forgets the older of two that share a
// place.
class DurableRows {
 public:
  // Any thread. A row is its operation, its claim and its state.
  bool has(const OperationId& id, const Record& record) const;
  void add(const OperationId& id, const Record& record);

 private:
  static constexpr std::size_t places = 1UZ << 15U;
  std::vector<std::atomic<std::uint64_t>> rows_ = std::vector<std::atomic<std::uint64_t>>(places);
};

class Batch {
 public:
  // What the batches of one store share.
  struct Shared {
    ServerCounts& counts;
    Turns& turns;
    DurableRows& durable;
  };
  enum class Ended : std::uint8_t {
    all_answered,
    not_begun,  // the connection broke before anything was written: the rest may be tried on another
    broken,     // it broke while something was: all is answered, what was at stake as unavailable
    unfit,      // this server does not take writes now; the rest may be tried on another
  };

  // Ops sorted by id. Those answered stay so; run() again goes on with the rest.
  Batch(std::span<Op* const> ops, const Shared& shared, std::chrono::nanoseconds deadline);

  Ended run(Connection& connection);
  // All that has no answer yet.
  void fail_rest(StoreFault fault, std::string_view why);
  // What the server, or the lack of it, said last.
  const std::string& last_error() const { return last_error_; }

 private:
  enum class Read : std::uint8_t {
    plain,   // as committed
    locked,  // ours to write
    both,    // to tell a row that somebody holds from one that is not there
  };
  enum class Change : std::uint8_t { none, insert, renew, finish, replace, remove };

  struct Item {
    Op* op;
    Read read;
    unsigned held_rounds = 0;  // in which somebody else held the row
    std::optional<Row> seen{};
    std::optional<Row> locked{};
    Change change = Change::none;
    NewRow written{};
    SeenRow was{};
    std::size_t statement = 0;  // which changes it
    bool answered = false;
    // The row that the answer tells, if it was only read and may not be on disk yet. Without its outcome.
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
  Script reading();
  Script writing(const Connection& connection);
  std::int64_t claims_until() const;
  void take_row(const RowView& view, Script::Part part);
  Item* find(const OperationId& id);

  void settle(Item& item);
  void settle_claim(Item& item);
  void settle_owner(Item& item);
  void settle_owned(Item& item, Row row);
  void settle_inserted();
  void answer(Item& item, OpStatus status);
  void answer_read(Item& item, const Record& read, OpStatus status);
  void note_read(Item& item, const Record& read) const;
  void note_committed();
  enum class Wrote : std::uint8_t { no, yes };
  Wrote answer_written(const Connection& connection);
  bool all_answered() const;
  void write_item(Script& script, Item& item) const;
  static bool keep_what_fits(const Connection& connection, Item& item);

  std::vector<Item> items_;
  const Shared shared_;
  const std::chrono::nanoseconds deadline_;
  unsigned rounds_ = 0;
  std::int64_t clock_us_ = 0;
  std::chrono::nanoseconds clock_asked_{};  // when that was sent
  struct {
    std::size_t statement = 0;
    std::size_t count = 0;
  } finishes_;  // of the script that was sent last
  std::string last_error_;
  bool in_transaction_ = false;
  bool confirms_ = false;       // this server shows commits before they are on disk
  bool unreadable_ = false;     // a row that is none
  bool maybe_written_ = false;  // a commit failed in a way that says nothing
};

}  // namespace once::mysql
