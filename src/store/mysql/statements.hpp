// The store's SQL: builds statements from records, and records from rows. batch.hpp sends them.
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
  Duration ttl{};  // of the claim, for a backend that finishes it by once_finish
  Duration tombstone{};
};

// nullopt: not a valid row, so the table is not Once's.
std::optional<Row> read_row(const RowView& view);

// What a row was when it was read. Every write to one that exists says it again: should the lock be gone, by a proxy
// or a cluster that gave the transaction up, it changes nothing.
struct SeenRow {
  Nonce nonce;
  Fence fence{};
  State state = State::started;
};
SeenRow seen_as(const Record& record);

// A chunk of a response that is still streaming.
struct Chunk {
  OperationId id;
  Nonce nonce;
  std::uint32_t number = 0;
};
// Its bytes, if they were asked for, are in column 3. nullopt: not a valid row.
std::optional<Chunk> read_chunk(const RowView& view);

// Columns of a new row in addition to its record. The views must live until the statement is built.
struct NewRow {
  Row row;
  std::string_view tenant{};
  std::string_view route{};
  std::optional<Time> sweep_at = std::nullopt;  // when it expires, if not said
};

// Where a page of one state ended.
struct Place {
  std::uint64_t started_at = 0;  // milliseconds
  std::string id;                // 32 bytes, or none
};
// As count_state_page() has it.
Place place_of(std::string_view text);
// Of an answer to EXPLAIN.
std::uint64_t rows_of(const RowView& row);

// Several statements for one round trip, and the purpose of each.
class Script {
 public:
  enum class Part : std::uint8_t {
    control,  // begins a transaction
    clock,    // microseconds since the epoch
    locked,   // rows, ours until the transaction ends
    seen,     // rows as committed
    chunks,   // rows of once_chunks
    change,   // written, but not committed
    commit,   // when this is done, all of it is
  };

  void begin() { add(Part::control, "BEGIN"); }
  void commit() { add(Part::commit, "COMMIT"); }
  void ask_clock();
  // `ids` in their order. Of `claims` whoever owns the row, of the others only those with one of these nonces: at READ
  // COMMITTED a row that does not fit is let go at once, so that many who lost do not keep the owner out.
  struct Locks {
    std::vector<OperationId> ids;
    std::vector<Nonce> owners;
    std::vector<OperationId> claims;
  };
  void lock(const Locks& locks, Held held);
  void see(std::span<const OperationId> ids);
  // Existing rows do not change. The fence is the server's clock at the insert, because an earlier owner may have come
  // and gone since the clock was read. After `until`, in microseconds of that clock, it fails with
  // sql_error::null_value, because the caller has given up.
  void insert(std::span<const NewRow> rows, std::int64_t until);
  // All finishes in one statement, which is a third cheaper than one each. Counts two for every row that has not
  // changed.
  void finish(std::span<const NewRow> rows);
  // Of a row that is locked; each changes one row, or none.
  void renew(const Row& row, const SeenRow& was);
  void replace(const NewRow& written, const SeenRow& was);
  void remove(const OperationId& id, const SeenRow& was);
  // Before an append to a response that has a first chunk, and before an end that leaves the body in chunks: only one
  // of them is at work.
  void hold_chunks(const OperationId& id, const Nonce& nonce);
  // If the row of the operation still has this owner, and is started. It does not lock that row, which a backend may
  // hold until its transaction ends. A chunk that is there already is marked, so that there is something to put on disk
  // before this one is told, too. Counts none if the owner has changed.
  void append(const Chunk& chunk, std::string_view bytes);
  // Chunks of the owner that the row has now, from this number on. Stops before the one that would exceed `most_bytes`,
  // but not before the first one.
  void see_chunks(const OperationId& id, std::uint32_t first, std::size_t most_bytes);
  // Those that nobody reads any more: their operation has ended without them, or has another owner.
  void see_orphans(std::size_t limit);
  void remove_chunks(std::span<const Chunk> chunks);
  // A row that is gone again before anybody can see it, so that the commit has something to put on disk.
  void write_nothing();
  // For operators. Rows behind this id, in the order of their ids, without outcomes: tenant, route and the size of the
  // outcome stand behind the other columns.
  void see_page(std::string_view after, std::size_t limit);
  // The same of one state, in the order of their beginnings and ids, behind this one.
  void see_state_page(State state, const Place& after, std::size_t limit);
  // The same, only how many in each state, and the place of the last one, as place_of() reads it; 9: as none.
  void count_state_page(Time now, State state, const Place& after, std::size_t limit);
  // How many rows the server believes to be there, and how many of them in this state; as rows_of() reads it.
  void estimate_all();
  void estimate(State state);
  // The same, only how many in each state, and the last id; 9: as none.
  void count_page(Time now, std::string_view after, std::size_t limit);
  // Ids of what has expired and was not looked at since, the oldest first.
  void see_expired(Time now, std::size_t limit);
  // Ids, and whether each is to be forgotten.
  void lock_expired(Time now, std::span<const OperationId> ids, Held held);
  // What is to be remembered becomes a tombstone, without its outcome.
  void bury_expired(Time now, std::span<const OperationId> ids);
  void remove_expired(Time now, std::span<const OperationId> ids);

  const std::string& text() const { return text_; }
  std::size_t size() const { return parts_.size(); }
  Part part(std::size_t statement) const;

 private:
  // `fence`: an expression, for all rows; empty: each has its record's.
  void append_insert(std::span<const NewRow> rows, std::string_view fence);
  void add(Part part, std::string_view text);
  void append_seen(const OperationId& id, const SeenRow& was);
  void append_place(State state, const Place& after, std::size_t limit);
  template <class Value>
  void append_list(std::span<const Value> values);

  std::string text_;
  std::vector<Part> parts_;
};

// Bytes of `value` in a text.
std::size_t escaped_size(std::string_view value);

// In the size of its column, and valid UTF-8: what is not is shown as a question mark.
std::string label(std::string_view text);

}  // namespace once::mysql
