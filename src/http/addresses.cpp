#include "http/addresses.hpp"

#include <algorithm>
#include <cstring>

namespace once::http {

bool same_address(const Endpoint& one, const Endpoint& other) {
  return one.size == other.size && std::memcmp(&one.address, &other.address, one.size) == 0;
}

bool contains(const Endpoints& endpoints, const Endpoint& wanted) {
  return std::ranges::any_of(endpoints, [&](const Endpoint& endpoint) { return same_address(endpoint, wanted); });
}

bool same_addresses(const Endpoints& one, const Endpoints& other) {
  const auto all_in = [](const Endpoints& few, const Endpoints& many) {
    return std::ranges::all_of(few, [&](const Endpoint& endpoint) { return contains(many, endpoint); });
  };
  return all_in(one, other) && all_in(other, one);
}

std::shared_ptr<const Endpoints> Addresses::current() const {
  const std::scoped_lock lock(changing_);
  return current_;
}

void Addresses::publish(Endpoints endpoints) {
  auto next = std::make_shared<const Endpoints>(std::move(endpoints));
  {
    const std::scoped_lock lock(changing_);
    current_ = std::move(next);
  }
  generation_.fetch_add(1, std::memory_order_release);
}

}  // namespace once::http
