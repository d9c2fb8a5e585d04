#include "gateway/limits/address_limit.hpp"

#include <functional>
#include <string_view>

#include "base/assert.hpp"

namespace once::gateway {

std::size_t AddressTable::Hash::operator()(const http::PeerNetwork& network) const {
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(network.bytes.data()), network.bytes.size()});
}

AddressTable::Share AddressTable::enter(const http::PeerNetwork& network, std::size_t most) {
  if (most == 0) return {};
  Shard& shard = shard_of(network);
  const std::scoped_lock lock(shard.mutex);
  Counts& counts = shard.connections[network];
  if (counts.open >= most) return {};
  ++counts.open;
  return {*this, network};
}

AddressTable::Counts AddressTable::counts(const http::PeerNetwork& network) {
  Shard& shard = shard_of(network);
  const std::scoped_lock lock(shard.mutex);
  const auto place = shard.connections.find(network);
  return place == shard.connections.end() ? Counts() : place->second;
}

void AddressTable::client_left(const http::PeerNetwork& network) {
  Shard& shard = shard_of(network);
  const std::scoped_lock lock(shard.mutex);
  Counts& counts = shard.connections[network];
  ONCE_ASSERT(counts.open > 0);
  --counts.open;
  ++counts.left;
}

void AddressTable::leave(const http::PeerNetwork& network, std::size_t Counts::* as) {
  Shard& shard = shard_of(network);
  const std::scoped_lock lock(shard.mutex);
  const auto place = shard.connections.find(network);
  ONCE_ASSERT(place != shard.connections.end() && place->second.*as > 0);
  --(place->second.*as);
  if (place->second.open == 0 && place->second.left == 0) shard.connections.erase(place);
}

}  // namespace once::gateway
