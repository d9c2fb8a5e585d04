#include "store/memory/labels.hpp"

#include <algorithm>

namespace once::memory {

RequestText request_text(std::string_view request) {
  if (request.empty()) return nullptr;
  auto text = std::make_unique<char[]>(request.size() + 1);
  std::ranges::copy(request, text.get());
  return text;
}

std::size_t cost_of(std::string_view request) {
  constexpr std::size_t overhead = 9;  // the allocator's, and the zero at the end
  return request.empty() ? 0 : request.size() + overhead;
}

Labels::Key Labels::key_of(std::string_view tenant, std::string_view route) {
  wanted_.assign(tenant).append(route);
  return {.text = wanted_, .tenant_size = tenant.size()};
}

std::size_t Labels::cost(std::string_view tenant, std::string_view route) {
  if (tenant.empty() && route.empty()) return 0;
  const Key key = key_of(tenant, route);
  return index_.contains(key) ? 0 : size_of(key.text.size());
}

std::uint32_t Labels::take(std::string_view tenant, std::string_view route) {
  if (tenant.empty() && route.empty()) return 0;
  const Key key = key_of(tenant, route);
  if (const auto known = index_.find(key); known != index_.end()) {
    ++entries_[known->second - 1].owners;
    return known->second;
  }
  std::uint32_t label = 0;
  if (free_.empty()) {
    entries_.emplace_back();
    label = static_cast<std::uint32_t>(entries_.size());
  } else {
    label = free_.back();
    free_.pop_back();
  }
  Entry& entry = entries_[label - 1];
  entry = {.text = std::string(key.text), .tenant_size = key.tenant_size, .owners = 1};
  index_.emplace(Key{.text = entry.text, .tenant_size = entry.tenant_size}, label);
  bytes_ += size_of(entry.text.size());
  return label;
}

void Labels::give_back(std::uint32_t label) {
  if (label == 0) return;
  Entry& entry = entries_[label - 1];
  if (--entry.owners > 0) return;
  index_.erase(Key{.text = entry.text, .tenant_size = entry.tenant_size});
  bytes_ -= size_of(entry.text.size());
  entry = Entry();
  free_.push_back(label);
}

Labels::Pair Labels::of(std::uint32_t label) const {
  if (label == 0) return {};
  const Entry& entry = entries_[label - 1];
  const std::string_view text = entry.text;
  return {.tenant = text.substr(0, entry.tenant_size), .route = text.substr(entry.tenant_size)};
}

}  // namespace once::memory
