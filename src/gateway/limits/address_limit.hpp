// How many connections there are from one address: for limits.max_connections_per_address, and to know whose slow ones
// make room for others.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "http/endpoint.hpp"

namespace once::gateway {

class AddressTable {
 public:
  // A connection that is counted, for as long as this is held.
  class Share {
   public:
    Share() = default;
    Share(AddressTable& table, const http::PeerNetwork& network) : table_(&table), network_(network) {}
    Share(const Share&) = delete;
    Share(Share&& other) noexcept : table_(std::exchange(other.table_, nullptr)), network_(other.network_) {}
    Share& operator=(Share other) noexcept {
      std::swap(table_, other.table_);
      std::swap(network_, other.network_);
      return *this;
    }
    ~Share() {
      if (table_ != nullptr) table_->leave(network_);
    }
    explicit operator bool() const { return table_ != nullptr; }
    // How many connections there are from its address.
    std::size_t count() const { return table_ != nullptr ? table_->count(network_) : 0; }

   private:
    AddressTable* table_ = nullptr;
    http::PeerNetwork network_;
  };

  // Nothing is held if there are `most` already.
  Share enter(const http::PeerNetwork& network, std::size_t most);

 private:
  struct Hash {
    std::size_t operator()(const http::PeerNetwork& network) const;
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<http::PeerNetwork, std::size_t, Hash> connections;
  };

  Shard& shard_of(const http::PeerNetwork& network) { return shards_[Hash()(network) % shards_.size()]; }
  void leave(const http::PeerNetwork& network);
  std::size_t count(const http::PeerNetwork& network);

  std::array<Shard, 16> shards_;
};

}  // namespace once::gateway
