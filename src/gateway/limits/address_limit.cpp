#include "gateway/limits/address_limit.hpp"

#include <functional>
#include <string_view>

#include "base/assert.hpp"

namespace once::gateway {

std::size_t AddressTable::Hash::operator()(const http::PeerNetwork& network) const {
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(network.bytes.data()), network.bytes.size()});
}

AddressTable::Share AddressTable::enter(const http::PeerNetwork& network, std::size_t most) {
  Shard& shard = shard_of(network);
  const std::scoped_lock lock(shard.mutex);
  const auto [place, made] = shard.connections.try_emplace(network, 0);
  if (place->second >= most) return {};
  ++place->second;
  return {*this, network};
}

std::size_t AddressTable::count(const http::PeerNetwork& network) {
  Shard& shard = shard_of(network);
  const std::scoped_lock lock(shard.mutex);
  const auto place = shard.connections.find(network);
  return place == shard.connections.end() ? 0 : place->second;
}

void AddressTable::leave(const http::PeerNetwork& network) {
  Shard& shard = shard_of(network);
  const std::scoped_lock lock(shard.mutex);
  const auto place = shard.connections.find(network);
  ONCE_ASSERT(place != shard.connections.end() && place->second > 0);
  if (--place->second == 0) shard.connections.erase(place);
}

}  // namespace once::gateway
