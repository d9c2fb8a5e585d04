#include "core/backend_policy.hpp"

#include <algorithm>
#include <cstddef>

#include "base/text.hpp"
#include "core/headers.hpp"

namespace once::core {

namespace {

constexpr std::string_view ttl_name = "ttl=";
constexpr std::uint64_t longest_ttl_seconds = 31'536'000;  // 365 days, like the limit of the setting

std::optional<Duration> ttl_of(std::string_view member) {
  if (!same_name(member.substr(0, ttl_name.size()), ttl_name)) return std::nullopt;
  const auto seconds = parse_number(member.substr(ttl_name.size()));
  if (!seconds || *seconds < 1 || *seconds > longest_ttl_seconds) return std::nullopt;
  return std::chrono::seconds(*seconds);
}

BackendPolicy::Record record_of(std::string_view member) {
  using enum BackendPolicy::Record;
  if (same_name(member, "no-store")) return no_store;
  if (same_name(member, "retry")) return retry;
  if (same_name(member, "final")) return final;
  return by_status;
}

}  // namespace

void BackendPolicy::add(std::string_view value) {
  while (!value.empty()) {
    const std::size_t end = std::min(value.find(','), value.size());
    const std::string_view member = trim(value.substr(0, end));
    value.remove_prefix(std::min(end + 1, value.size()));
    record = std::max(record, record_of(member));
    if (const auto given = ttl_of(member)) ttl = given;
  }
}

}  // namespace once::core
