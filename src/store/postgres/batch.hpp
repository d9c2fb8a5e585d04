// Executes one batch in the database. Each round is one pipeline: one round trip, one transaction. Most batches need
// one round. Ops that raced with another gateway, take over an earlier attempt or were lost need a second one.
//
//   claim                   made, or answered by the existing row; a row to take over: take; too late by the
//                           server's clock: claim again
//   take                    taken; changed meanwhile: claim again; unchanged: locked
//   seize                   before a take, resolve or forget of a row with an owner whose lease has ended
//   renew, finish,          done; else: read
//   release, forget
//   append                  done or lost
//   read                    lost, or done before; or neither: locked
//   locked                  the same write again, with a lock on every row that is free; else: alone
//   alone                   again in a round of its own, which waits briefly for the lock
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "store/postgres/connection.hpp"
#include "store/store.hpp"

namespace once::postgres {

// The record of a row, without its outcome.
Record record_of(const Rows& rows, std::size_t row);
// Whether the record counts as absent. A reader whose clock was read before a release does not see it as forgotten yet.
bool is_as_none(const Record& record, Time now);

class Batch {
 public:
  // `until` is the deadline of its claims (monotonic_now()).
  Batch(std::span<Op* const> ops, std::chrono::nanoseconds until);

  // Sends the next round; returns whether any op is left.
  bool send_round(Connection& connection);
  // Reads the answers of the round.
  void receive(Connection& connection, const std::vector<Rows>& results);
  // The round failed because another transaction holds a row. Answers the op if it had a round of its own; returns
  // whether it did.
  bool was_blocked();
  // Answers all remaining ops with this fault; returns them.
  std::vector<Op*> fail_rest(StoreFault fault, std::string_view why);

 private:
  enum class Step : std::uint8_t { first, take, read, locked, alone, answered };

  struct Item {
    Op* op = nullptr;
    Step step = Step::first;
    std::optional<Record> seen{};  // claim: the row to take over
    bool seen_is_none = false;     // it expired or was released: only its fence is used
    int rounds = 0;
    bool matched = false;  // in this round
  };
  using Items = std::vector<Item*>;
  struct Sent {
    Statement statement;
    Locked locked;
    Items items;
    std::size_t bytes;  // of outcomes
  };
  struct Row;

  void plan();
  void plan_alone();
  void add(Statement statement, Item& item, Locked locked = Locked::unlikely);
  Parameters parameters_of(const Sent& sent, const Connection& connection) const;
  static bool seizes(const Item& item);
  static void add_chunks(Parameters& out, const Sent& sent);
  static void add_seen(Parameters& out, const Items& items);

  static Row row_of(const Rows& rows, std::size_t row);
  static void answer(Item& item, OpStatus status);
  static void settle(Item& item, const Row& row, Statement statement);
  static void settle_claim(Item& item, const Row& row);
  static void settle_done(Item& item, const Row& row);
  static void settle_read(Item& item, const Row& row);
  static void take_chunks(Op& op, const Rows& rows, std::size_t row);
  static void miss(Item& item);
  static void give_up_on_lock(Item& item);

  const std::chrono::nanoseconds until_;
  std::chrono::nanoseconds sent_at_{};
  std::vector<Item> items_;  // sorted by id
  std::vector<Sent> sent_;
  bool alone_ = false;                   // this round waits for locks
  std::chrono::nanoseconds patience_{};  // the deadline after the first wait for a lock
};

}  // namespace once::postgres
