// The table's search for operators: each page begins after the last id of the previous one. Keys in the states that
// operators look for are found by a partial index, all others by the primary key. Large tables are not counted
// completely: the number of succeeded keys is estimated, the others are counted.
#include <algorithm>
#include <array>
#include <iterator>

#include "store/postgres/batch.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/postgres_store.hpp"

namespace once::postgres {

namespace {

constexpr std::size_t rows_per_query = 1000;
constexpr int queries_per_page = 8;
constexpr std::size_t rows_per_count = 20'000;
// The size of the table without large outcomes, some hundred thousand rows. Counting more would take minutes at a pace
// that does not slow the server down.
constexpr std::int64_t largest_counted = 256LL << 20U;

// The passes for counting a large table; a cursor is the pass's letter, which is no hex digit, and the last id.
struct Counted {
  char place;
  State state;
  Statement statement;
};
constexpr std::array counted = {Counted{'S', State::started, Statement::count_started},
                                Counted{'F', State::failed, Statement::count_failed},
                                Counted{'U', State::unknown, Statement::count_unknown}};

Statement page_of(const KeyFilter& filter) {
  if (filter.state == State::started) return Statement::page_started;
  if (filter.state == State::failed) return Statement::page_failed;
  if (filter.state == State::unknown) return Statement::page_unknown;
  return Statement::page;
}

bool is_id(const std::optional<std::string>& bytes) {
  return bytes && (bytes->empty() || bytes->size() == OperationId::size);
}

Parameters after(std::string_view id, std::size_t limit) {
  Parameters parameters;
  parameters.bytes(id);
  parameters.int8(static_cast<std::int64_t>(limit));
  return parameters;
}

std::optional<KeyInfo> info_in(const Rows& rows, std::size_t row) {
  const Record record = record_of(rows, row);
  const Time now = rows.time(row, Column::now);
  if (is_as_none(record, now)) return std::nullopt;
  KeyInfo info = info_of(rows.blob<OperationId>(row, Column::id), record, now);
  if (info.state != State::tombstone) {
    info.outcome_bytes = static_cast<std::uint64_t>(rows.int8(row, Column::outcome_bytes));
  }
  if (const auto tenant = rows.bytes(row, Column::tenant); !tenant.empty()) info.tenant = tenant;
  if (const auto route = rows.bytes(row, Column::route); !route.empty()) info.route = route;
  return info;
}

}  // namespace

Result<KeyPage> PostgresStore::scan(const KeyFilter& filter, std::string_view cursor, std::size_t limit) {
  auto id = from_hex(cursor);
  if (!is_id(id)) return bad_cursor();
  KeyPage page;
  for (int queries = 0; queries < queries_per_page; ++queries) {
    const auto rows = ask(search_pool_, page_of(filter), after(*id, rows_per_query));
    if (!rows) return std::unexpected(rows.error());
    for (std::size_t row = 0; row < rows->size(); ++row) {
      page.now = rows->time(row, Column::now);
      *id = rows->bytes(row, Column::id);
      auto info = info_in(*rows, row);
      if (!info || !fits(*info, filter)) continue;
      page.keys.push_back(*std::move(info));
      if (page.keys.size() == limit) break;
    }
    page.next.clear();
    if (page.keys.size() < limit && rows->size() < rows_per_query) return page;
    page.next = to_hex(*id);
    if (page.keys.size() == limit) return page;
  }
  return page;
}

Result<KeyPage> PostgresStore::find(const IdPrefix& prefix) {
  const auto rows = ask(search_pool_, Statement::page, after(prefix.view(), 8));
  if (!rows) return std::unexpected(rows.error());
  KeyPage page;
  for (std::size_t row = 0; row < rows->size(); ++row) {
    page.now = rows->time(row, Column::now);
    auto info = info_in(*rows, row);
    if (info && begins_with(info->id, prefix)) page.keys.push_back(*std::move(info));
  }
  return page;
}

Result<KeyCounts> PostgresStore::count(std::string_view cursor) {
  const auto place = std::ranges::find(counted, cursor.empty() ? '\0' : cursor.front(), &Counted::place);
  if (place != counted.end()) {
    auto counts = count_part(place->statement, cursor.substr(1));
    if (!counts) return counts;
    if (!counts->next.empty()) {
      counts->next.insert(0, 1, place->place);
    } else if (std::next(place) != counted.end()) {
      counts->next = std::next(place)->place;
    }
    return counts;
  }
  if (!cursor.empty()) return count_part(Statement::count, cursor);
  const auto known = ask(search_pool_, Statement::estimate, Parameters());
  if (!known) return std::unexpected(known.error());
  const bool counts_all = known->size() != 1 || known->int8(0, 0) < largest_counted || known->int8(0, 1) < 0;
  if (counts_all) return count_part(Statement::count, cursor);
  KeyCounts counts;
  counts.by_state[static_cast<std::size_t>(State::succeeded)] = static_cast<std::uint64_t>(known->int8(0, 1));
  counts.by_state[static_cast<std::size_t>(State::tombstone)] = static_cast<std::uint64_t>(known->int8(0, 2));
  counts.next = counted.front().place;
  return counts;
}

Result<KeyCounts> PostgresStore::count_part(Statement statement, std::string_view cursor) {
  const auto id = from_hex(cursor);
  if (!is_id(id)) return bad_cursor();
  const auto rows = ask(search_pool_, statement, after(*id, rows_per_count));
  if (!rows) return std::unexpected(rows.error());
  KeyCounts counts;
  std::uint64_t looked = 0;
  for (std::size_t row = 0; row < rows->size(); ++row) {
    const auto count = static_cast<std::uint64_t>(rows->int8(row, 1));
    const auto state = rows->int2(row, 0);
    looked += count;
    if (state >= 0 && static_cast<std::size_t>(state) < counts.by_state.size()) {
      counts.by_state[static_cast<std::size_t>(state)] += count;
    }
    counts.next = to_hex(rows->bytes(row, 2));
  }
  if (looked < rows_per_count) counts.next.clear();
  return counts;
}

}  // namespace once::postgres
