// The table as operators see it, by its primary key: a page begins behind the last id of the one before.
#include "base/text.hpp"
#include "store/mysql/mysql_store.hpp"

namespace once {

using mysql::RowView;
using mysql::Script;

namespace {

constexpr std::size_t rows_per_query = 500;
constexpr int queries_per_page = 8;
constexpr std::size_t rows_per_count = 20'000;
constexpr std::size_t tenant_column = 15;
constexpr std::size_t route_column = 16;
constexpr std::size_t size_column = 17;

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

}  // namespace

Result<void> MysqlStore::ask(const Script& script, const mysql::Connection::OnRow& on_row) {
  auto connection = search_pool_.take();
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

Result<KeyPage> MysqlStore::page_after(std::string_view id, std::size_t rows, std::string& last, std::size_t& looked) {
  Script script;
  script.ask_clock();
  script.see_page(id, rows);
  KeyPage page;
  looked = 0;
  const auto ran = ask(script, [&](std::size_t statement, const RowView& view) {
    if (script.part(statement) == Script::Part::clock) {
      page.now = clock_of(view);
      return;
    }
    ++looked;
    last = view[0].value_or("");
    const auto row = mysql::read_row(view);
    if (!row || forgotten(row->record, page.now)) return;
    KeyInfo& info = page.keys.emplace_back(info_of(row->id, row->record, page.now));
    info.tenant = label_in(view[tenant_column]);
    info.route = label_in(view[route_column]);
    if (info.state != State::tombstone) info.outcome_bytes = parse_number(view[size_column].value_or("")).value_or(0);
  });
  if (!ran) return std::unexpected(ran.error());
  return page;
}

Result<KeyPage> MysqlStore::scan(const KeyFilter& filter, std::string_view cursor, std::size_t limit) {
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
  // A column of 32 bytes is compared with zeros behind shorter ones.
  std::string before(prefix.view());
  std::string last;
  std::size_t looked = 0;
  auto page = page_after(before, 8, last, looked);
  if (page) std::erase_if(page->keys, [&](const KeyInfo& info) { return !begins_with(info.id, prefix); });
  return page;
}

Result<KeyCounts> MysqlStore::count(std::string_view cursor) {
  const auto id = from_hex(cursor);
  if (!is_id(id)) return bad_cursor();
  const auto now = clock();
  if (!now) return std::unexpected(now.error());
  Script script;
  script.count_page(*now, *id, rows_per_count);
  KeyCounts counts;
  std::uint64_t looked = 0;
  std::string last;
  const auto ran = ask(script, [&](std::size_t, const RowView& row) {
    const std::uint64_t count = parse_number(row[1].value_or("")).value_or(0);
    const std::uint64_t state = parse_number(row[0].value_or("")).value_or(counts.by_state.size());
    looked += count;
    if (state < counts.by_state.size()) counts.by_state[state] += count;
    last = std::max(last, std::string(row[2].value_or("")));
  });
  if (!ran) return std::unexpected(ran.error());
  if (looked >= rows_per_count) counts.next = to_hex(last);
  return counts;
}

}  // namespace once
