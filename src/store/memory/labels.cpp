#include "store/memory/labels.hpp"

#include <algorithm>
#include <utility>

#include "core/route_label.hpp"

namespace once::memory {

RequestText request_text(std::string_view request) {
  if (request.empty()) return nullptr;
  auto text = std::make_unique<char[]>(request.size() + 1);
  std::ranges::copy(request, text.get());
  return text;
}

std::size_t cost_of(std::string_view request) {
  constexpr std::size_t overhead = 9;  // of the allocator, and the terminating zero
  return request.empty() ? 0 : request.size() + overhead;
}

bool Labels::is_bare(const Op& claim) {
  return claim.holder == TenantTag{} && claim.tenant.empty() && parts_of(claim.route).route.empty();
}

Labels::Key Labels::key_of(const Op& claim) {
  wanted_.assign(claim.holder.data(), claim.holder.size()).append(claim.tenant).append(parts_of(claim.route).route);
  return {.text = wanted_, .tenant_size = claim.tenant.size()};
}

std::size_t Labels::cost(const Op& claim) {
  if (is_bare(claim)) return 0;
  const Key key = key_of(claim);
  return index_.contains(key) ? 0 : size_of(key.text.size()) + Holders::bytes_of_holder;
}

std::shared_ptr<Holder> Labels::find_holder(const Op& claim) {
  if (is_bare(claim)) return untagged_;
  const auto known = index_.find(key_of(claim));
  return known == index_.end() ? holders_.find(claim.holder) : entries_[known->second - 1].holder;
}

std::uint32_t Labels::take(const Op& claim) {
  if (is_bare(claim)) return 0;
  const Key key = key_of(claim);
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
  entry = {.text = std::string(key.text),
           .tenant_size = key.tenant_size,
           .owners = 1,
           .holder = holders_.take(claim.holder)};
  index_.emplace(Key{.text = entry.text, .tenant_size = entry.tenant_size}, label);
  bytes_ += size_of(entry.text.size());
  holders_.add_label(*entry.holder, size_of(entry.text.size()));
  return label;
}

void Labels::give_back(std::uint32_t label) {
  if (label == 0) return;
  Entry& entry = entries_[label - 1];
  if (--entry.owners > 0) return;
  index_.erase(Key{.text = entry.text, .tenant_size = entry.tenant_size});
  const std::size_t size = size_of(entry.text.size());
  bytes_ -= size;
  holders_.add_label(*entry.holder, -size);
  holders_.give_back(tag_of(label));
  entry = Entry();
  free_.push_back(label);
}

TenantTag Labels::tag_of(std::uint32_t label) const {
  TenantTag tag{};
  if (label != 0) std::copy_n(entries_[label - 1].text.begin(), tag.size(), tag.begin());
  return tag;
}

Labels::Pair Labels::of(std::uint32_t label) const {
  if (label == 0) return {};
  const Entry& entry = entries_[label - 1];
  const std::string_view text = std::string_view(entry.text).substr(TenantTag().size());
  return {.tenant = text.substr(0, entry.tenant_size), .route = text.substr(entry.tenant_size)};
}

}  // namespace once::memory
