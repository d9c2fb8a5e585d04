// The table's search for operators: each page begins after the last row of the previous one. Keys in the states that
// operators look for are found by an index on the state, all others by the primary key. Large tables are not counted
// completely: the number of succeeded keys is estimated, the others are counted.
#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>

#include "base/text.hpp"
#include "store/mysql/mysql_store.hpp"

namespace once::mysql {

namespace {

constexpr std::size_t rows_per_query = 500;
constexpr int queries_per_page = 8;
constexpr std::size_t rows_per_count = 20'000;
// Counting more rows would take minutes at a pace that does not slow the server down.
constexpr std::uint64_t most_counted = 200'000;
// Counted in this order, each by its index.
constexpr std::array counted_states = {State::started, State::failed, State::unknown};
constexpr std::size_t tenant_column = 16;
constexpr std::size_t route_column = 17;
constexpr std::size_t size_column = 18;

Time clock_of(const RowView& row) {
  return Time(Duration(static_cast<Duration::rep>(parse_number(row[0].value_or("")).value_or(0) / 1000)));
}

std::optional<std::string> label_in(std::optional<std::string_view> text) {
  if (!text || text->empty()) return std::nullopt;
  return std::string(*text);
}

bool is_id(const std::optional<std::string>& bytes) {
  return bytes && (bytes->empty() || bytes->size() == OperationId::size);
}

bool has_index(const std::optional<State>& state) {
  return state && std::ranges::find(counted_states, *state) != counted_states.end();
}

// "1763320000000.6f3a…"
std::string cursor_of(const Place& place) {
  return fmt::format("{}.{}", place.started_at, to_hex(place.id));
}

std::optional<Place> read_place(std::string_view cursor) {
  if (cursor.empty()) return Place();
  const std::size_t dot = cursor.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto started_at = parse_number(cursor.substr(0, dot));
  auto id = from_hex(cursor.substr(dot + 1));
  if (!started_at || !id || id->size() != OperationId::size) return std::nullopt;
  return Place{.started_at = *started_at, .id = *std::move(id)};
}

// The progress of counting a large table: the current state, the rows counted before, and where to continue.
struct CountPlace {
  std::size_t state = 0;  // an index of counted_states
  std::uint64_t before = 0;
  std::string place{};
};

std::string cursor_of(const CountPlace& at) {
  return fmt::format("n{}.{}.{}", at.state, at.before, at.place);
}

std::optional<CountPlace> read_count_place(std::string_view cursor) {
  if (!cursor.starts_with('n')) return std::nullopt;
  const std::size_t first = cursor.find('.');
  const std::size_t second = first == std::string_view::npos ? first : cursor.find('.', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const auto state = parse_number(cursor.substr(1, first - 1));
  const auto before = parse_number(cursor.substr(first + 1, second - first - 1));
  if (!state || !before || *state >= counted_states.size()) return std::nullopt;
  return CountPlace{.state = *state, .before = *before, .place = std::string(cursor.substr(second + 1))};
}

}  // namespace

Result<void> MysqlStore::ask(const Script& script, const Connection::OnRow& on_row) {
  auto connection = search_pool_.take(monotonic_now() + settings_.timeout);
  if (!connection) return std::unexpected(connection.error());
  const auto ran = (*connection)->run(script.text(), on_row, script.size());
  if (ran) return {};
  connection->drop();
  return std::unexpected(
      Error{.source = ErrorSource::store, .retryable = Retryable::yes, .detail = ran.error().detail});
}

Result<Time> MysqlStore::clock() {
  Script script;
  script.ask_clock();
  Time now{};
  const auto ran = ask(script, [&](std::size_t, const RowView& row) { now = clock_of(row); });
  if (!ran) return std::unexpected(ran.error());
  return now;
}

Result<KeyPage> MysqlStore::page_of(const Script& script, const OnLooked& on_looked) {
  KeyPage page;
  const auto ran = ask(script, [&](std::size_t statement, const RowView& view) {
    if (script.part(statement) == Script::Part::clock) {
      page.now = clock_of(view);
      return;
    }
    const auto row = read_row(view);
    on_looked(view[0].value_or(""), row ? row->record.started_at : Time());
    if (!row || forgotten(row->record, page.now)) return;
    KeyInfo& info = page.keys.emplace_back(info_of(row->id, row->record, page.now));
    info.tenant = label_in(view[tenant_column]);
    info.route = label_in(view[route_column]);
    if (info.state != State::tombstone) info.outcome_bytes = parse_number(view[size_column].value_or("")).value_or(0);
  });
  if (!ran) return std::unexpected(ran.error());
  return page;
}

Result<KeyPage> MysqlStore::page_after(std::string_view id, std::size_t rows, std::string& last, std::size_t& looked) {
  Script script;
  script.ask_clock();
  script.see_page(id, rows);
  looked = 0;
  return page_of(script, [&](std::string_view each, Time /*started_at*/) {
    ++looked;
    last = each;
  });
}

// A page may have fewer keys than requested but is never longer: the next page begins at its end.
Result<KeyPage> MysqlStore::scan_state(const KeyFilter& filter, std::string_view cursor, std::size_t limit) {
  auto place = read_place(cursor);
  if (!place) return bad_cursor();
  KeyPage page;
  for (int queries = 0; queries < queries_per_page; ++queries) {
    Script script;
    script.ask_clock();
    const std::size_t rows = std::min(rows_per_query, limit - page.keys.size());
    script.see_state_page(*filter.state, *place, rows);
    std::size_t looked = 0;
    auto part = page_of(script, [&](std::string_view id, Time started_at) {
      ++looked;
      *place = {.started_at = static_cast<std::uint64_t>(started_at.time_since_epoch().count()), .id = std::string(id)};
    });
    if (!part) return part;
    page.now = part->now;
    for (KeyInfo& info : part->keys) {
      if (fits(info, filter)) page.keys.push_back(std::move(info));
    }
    page.next = looked < rows ? "" : cursor_of(*place);
    if (page.next.empty() || page.keys.size() >= limit) return page;
  }
  return page;
}

Result<KeyPage> MysqlStore::scan(const KeyFilter& filter, std::string_view cursor, std::size_t limit) {
  if (has_index(filter.state)) return scan_state(filter, cursor, limit);
  const auto begin = from_hex(cursor);
  if (!is_id(begin)) return bad_cursor();
  std::string id = *begin;
  KeyPage page;
  for (int queries = 0; queries < queries_per_page; ++queries) {
    std::string last = id;
    std::size_t looked = 0;
    auto part = page_after(id, rows_per_query, last, looked);
    if (!part) return part;
    page.now = part->now;
    for (KeyInfo& info : part->keys) {
      if (!fits(info, filter)) continue;
      page.keys.push_back(std::move(info));
      if (page.keys.size() < limit) continue;
      page.next = to_hex(page.keys.back().id);
      return page;
    }
    page.next.clear();
    if (looked < rows_per_query) return page;
    id = last;
    page.next = to_hex(id);
  }
  return page;
}

Result<KeyPage> MysqlStore::find(const IdPrefix& prefix) {
  // The column has 32 bytes; shorter values are padded with zeros for the comparison.
  std::string before(prefix.view());
  std::string last;
  std::size_t looked = 0;
  auto page = page_after(before, 8, last, looked);
  if (page) std::erase_if(page->keys, [&](const KeyInfo& info) { return !begins_with(info.id, prefix); });
  return page;
}

Result<KeyCounts> MysqlStore::count(std::string_view cursor) {
  if (const auto at = read_count_place(cursor)) return count_state(at->state, at->before, at->place);
  if (!cursor.empty()) return count_all(cursor);
  Script script;
  script.estimate_all();
  std::uint64_t rows = 0;
  const auto ran = ask(script, [&](std::size_t, const RowView& row) { rows = rows_of(row); });
  if (!ran) return std::unexpected(ran.error());
  return rows <= most_counted ? count_all(cursor) : count_state(0, 0, "");
}

Result<KeyCounts> MysqlStore::count_part(const Script& script, std::uint64_t& looked, std::string& last) {
  KeyCounts counts;
  looked = 0;
  const auto ran = ask(script, [&](std::size_t, const RowView& row) {
    const std::uint64_t count = parse_number(row[1].value_or("")).value_or(0);
    const std::uint64_t state = parse_number(row[0].value_or("")).value_or(counts.by_state.size());
    looked += count;
    if (state < counts.by_state.size()) counts.by_state[state] += count;
    last = std::max(last, std::string(row[2].value_or("")));
  });
  if (!ran) return std::unexpected(ran.error());
  return counts;
}

Result<KeyCounts> MysqlStore::count_all(std::string_view cursor) {
  const auto id = from_hex(cursor);
  if (!is_id(id)) return bad_cursor();
  const auto now = clock();
  if (!now) return std::unexpected(now.error());
  Script script;
  script.count_page(*now, *id, rows_per_count);
  std::uint64_t looked = 0;
  std::string last;
  auto counts = count_part(script, looked, last);
  if (counts && looked >= rows_per_count) counts->next = to_hex(last);
  return counts;
}

Result<KeyCounts> MysqlStore::count_state(std::size_t state, std::uint64_t before, std::string_view cursor) {
  const auto place = read_place(cursor);
  if (!place) return bad_cursor();
  const auto now = clock();
  if (!now) return std::unexpected(now.error());
  Script script;
  script.count_state_page(*now, counted_states.at(state), *place, rows_per_count);
  std::uint64_t looked = 0;
  std::string last;
  auto counts = count_part(script, looked, last);
  if (!counts) return counts;
  before += looked;
  if (looked >= rows_per_count) {
    counts->next = cursor_of(CountPlace{.state = state, .before = before, .place = cursor_of(place_of(last))});
  } else if (state + 1 < counted_states.size()) {
    counts->next = cursor_of(CountPlace{.state = state + 1, .before = before});
  } else if (const auto estimated = estimate_rest(before, *counts); !estimated) {
    return std::unexpected(estimated.error());
  }
  return counts;
}

Result<void> MysqlStore::estimate_rest(std::uint64_t counted, KeyCounts& counts) {
  Script script;
  script.estimate_all();
  script.estimate(State::tombstone);
  std::array<std::uint64_t, 2> rows{};
  const auto ran = ask(script, [&](std::size_t statement, const RowView& row) { rows.at(statement) = rows_of(row); });
  if (!ran) return ran;
  const auto [all, tombstones] = rows;
  counts.by_state[static_cast<std::size_t>(State::tombstone)] += tombstones;
  counts.by_state[static_cast<std::size_t>(State::succeeded)] += all - std::min(all, counted + tombstones);
  return {};
}

}  // namespace once::mysql
