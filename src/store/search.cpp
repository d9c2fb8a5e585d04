#include "store/search.hpp"

#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "core/route_label.hpp"

namespace once::store {

namespace {

constexpr std::string_view not_a_cursor = "the cursor does not belong to this store";

}  // namespace

KeyInfo info_of(const OperationId& id, const Record& record, Time now) {
  const bool tombstone = expired(record, now);
  return {.id = id,
          .nonce = record.nonce,
          .state = tombstone ? State::tombstone : record.state,
          .body_kept = record.body_kept,
          .attempt = record.attempt,
          .fence = record.fence,
          .started_at = record.started_at,
          .lease_until = record.lease_until,
          .expires_at = record.expires_at,
          .forget_at = record.forget_at,
          .outcome_bytes = record.outcome == nullptr || tombstone ? 0 : record.outcome->size()};
}

void KeyCounts::add(const KeyInfo& key, Time now) {
  const bool lapsed = key.state == State::started && key.lease_until <= now;
  ++by_state.at(lapsed ? lapsed_at : static_cast<std::size_t>(key.state));
}

bool fits(const KeyInfo& info, const KeyFilter& filter) {
  return (!filter.state || info.state == *filter.state) && (!filter.tenant || info.tenant == filter.tenant) &&
         (!filter.route || (info.route && route_in(*info.route) == *filter.route)) &&
         (!filter.started_before || info.started_at <= *filter.started_before) &&
         (!filter.started_after || info.started_at >= *filter.started_after);
}

bool begins_with(const OperationId& id, const IdPrefix& prefix) {
  return std::memcmp(id.bytes.data(), prefix.bytes.data(), prefix.bytes.size()) == 0;
}

IdPrefix prefix_of(const OperationId& id) {
  IdPrefix prefix;
  std::memcpy(prefix.bytes.data(), id.bytes.data(), prefix.bytes.size());
  return prefix;
}

Result<KeyPage> Search::get(const OperationId& id) {
  auto page = find(prefix_of(id));
  if (page) std::erase_if(page->keys, [&id](const KeyInfo& info) { return info.id != id; });
  return page;
}

std::string cursor_of(std::initializer_list<std::uint64_t> numbers) {
  return fmt::format("{}", fmt::join(numbers, "."));
}

std::optional<std::vector<std::uint64_t>> read_cursor(std::string_view cursor, std::size_t count) {
  std::vector<std::uint64_t> numbers;
  if (cursor.empty()) return std::vector<std::uint64_t>(count);
  for (const std::string_view part : split(cursor, '.')) {
    const auto number = parse_number(part);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  if (numbers.size() != count) return std::nullopt;
  return numbers;
}

std::unexpected<Error> bad_cursor() {
  return std::unexpected(
      Error{.source = ErrorSource::client, .retryable = Retryable::no, .detail = std::string(not_a_cursor)});
}

bool is_bad_cursor(const Error& error) {
  return error.detail == not_a_cursor;
}

}  // namespace once::store
