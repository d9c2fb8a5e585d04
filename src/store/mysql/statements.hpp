// The store's SQL: builds statements from records, and records from rows. batch.hpp sends the statements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/record.hpp"
#include "store/mysql/connection.hpp"

namespace once::mysql {

// A row of once_operations without the columns for operators.
struct Row {
  OperationId id;
  Record record;
  Duration ttl{};  // of the claim, for a backend that calls once_finish
  Duration tombstone{};
};

// nullopt: the row is invalid, so the table is not Once's.
std::optional<Row> read_row(const RowView& view);

// What a row contained when it was read. Every update repeats it as a condition: if the lock was lost because a proxy
// or a cluster aborted the transaction, nothing changes.
struct SeenRow {
  Nonce nonce;
  Fence fence{};
  State state = State::started;
};
SeenRow seen_as(const Record& record);

// A chunk of a streaming response.
struct Chunk {
  OperationId id;
  Nonce nonce;
  std::uint32_t number = 0;
};
// If the bytes were requested, they are in column 3. nullopt: the row is invalid.
std::optional<Chunk> read_chunk(const RowView& view);

// Columns of a new row in addition to its record. The views must live until the statement is built.
struct NewRow {
  Row row;
  std::string_view tenant{};
  std::string_view route{};
  std::optional<Time> sweep_at = std::nullopt;  // when it expires, if not set
};

// The last row of a page of one state.
struct Place {
  std::uint64_t started_at = 0;  // milliseconds
  std::string id;                // 32 bytes, or none
};
// Parses the place that count_state_page() returns.
Place place_of(std::string_view text);
// Parses an answer to EXPLAIN.
std::uint64_t rows_of(const RowView& row);

// Several statements for one round trip, and the purpose of each.
class Script {
 public:
  enum class Part : std::uint8_t {
    control,  // begins a transaction
    clock,    // returns microseconds since the epoch
    locked,   // returns rows that are locked until the transaction ends
    seen,     // returns rows as committed
    chunks,   // returns rows of once_chunks
    change,   // writes, which are committed later
    commit,   // commits
  };

  void begin() { add(Part::control, "BEGIN"); }
  void commit() { add(Part::commit, "COMMIT"); }
  void ask_clock();
  // The rows to lock, with ids in order: `claims` regardless of the row's owner, the others only if the row has one of
  // these nonces. At READ COMMITTED a row that does not match is unlocked at once, so losers do not block the owner.
  struct Locks {
    std::vector<OperationId> ids;
    std::vector<Nonce> owners;
    std::vector<OperationId> claims;
  };
  void lock(const Locks& locks, Held held);
  void see(std::span<const OperationId> ids);
  // Existing rows do not change. The fence is the server's clock at the insert, because an earlier owner may have come
  // and gone since the clock was read. After `until`, in microseconds of that clock, the insert fails with
  // sql_error::null_value, because the caller has given up.
  void insert(std::span<const NewRow> rows, std::int64_t until);
  // All finishes in one statement, which is a third cheaper than one each. Connection::changed() is two per
  // row that was written.
  void finish(std::span<const NewRow> rows);
  // Each changes a locked row that is still as it was seen, or nothing.
  void renew(const Row& row, const SeenRow& was);
  void replace(const NewRow& written, const SeenRow& was);
  void remove(const OperationId& id, const SeenRow& was);
  // Runs before an append to a response that has a first chunk, and before an end that leaves the body in chunks: the
  // lock lets only one of them proceed.
  void hold_chunks(const OperationId& id, const Nonce& nonce);
  // Inserts a chunk if the operation's row has this owner and is started. It does not lock that row, which a backend
  // may hold until its transaction ends. An existing chunk is marked, so that the commit syncs before it is reported.
  // Counts 0 if the owner has changed.
  void append(const Chunk& chunk, std::string_view bytes);
  // Reads the chunks of the row's current owner, from this number on. Stops before the one that would exceed
  // `most_bytes`, but returns at least one.
  void see_chunks(const OperationId& id, std::uint32_t first, std::size_t most_bytes);
  // Finds obsolete chunks: their operation has ended without them, or has another owner.
  void see_orphans(std::size_t limit);
  void remove_chunks(std::span<const Chunk> chunks);
  // Inserts a row and deletes it again before the commit, so that the commit must sync.
  void write_nothing();
  // For operators: rows after this id, in the order of ids, without outcomes; tenant, route and the size of the outcome
  // follow the other columns.
  void see_page(std::string_view after, std::size_t limit);
  // The same for one state, after this place, in the order of start times and ids.
  void see_state_page(State state, const Place& after, std::size_t limit);
  // Counts instead of returning rows: the number in each state, and the last place for place_of(); state 9: rows that
  // count as absent.
  void count_state_page(Time now, State state, const Place& after, std::size_t limit);
  // The server's estimates of the number of rows, in total and in this state; parsed by rows_of().
  void estimate_all();
  void estimate(State state);
  // Counts the rows of a page in each state, and returns the last id; state 9: rows that count as absent.
  void count_page(Time now, std::string_view after, std::size_t limit);
  // Finds expired rows that were not handled yet, the oldest first.
  void see_expired(Time now, std::size_t limit);
  // Locks these rows; returns ids, and whether each is to be forgotten.
  void lock_expired(Time now, std::span<const OperationId> ids, Held held);
  // Turns rows that must be remembered into tombstones without outcomes.
  void bury_expired(Time now, std::span<const OperationId> ids);
  void remove_expired(Time now, std::span<const OperationId> ids);

  const std::string& text() const { return text_; }
  std::size_t size() const { return parts_.size(); }
  Part part(std::size_t statement) const;

 private:
  // `fence` is an expression for all rows; empty: each has its record's.
  void append_insert(std::span<const NewRow> rows, std::string_view fence);
  void add(Part part, std::string_view text);
  void append_seen(const OperationId& id, const SeenRow& was);
  void append_place(State state, const Place& after, std::size_t limit);
  template <class Value>
  void append_list(std::span<const Value> values);

  std::string text_;
  std::vector<Part> parts_;
};

// The size of `value` after escaping.
std::size_t escaped_size(std::string_view value);

// The text cut to the size of its column, as valid UTF-8: invalid bytes become question marks.
std::string label(std::string_view text);

}  // namespace once::mysql
