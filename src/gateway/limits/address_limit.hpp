// Counts connections per address, for limits.max_connections_per_address and to choose which slow clients are
// displaced. Also counts an address's keyed requests that continue without their clients.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "http/endpoint.hpp"

namespace once::gateway {

class AddressTable {
  struct Counts {
    std::size_t open = 0;
    std::size_t left = 0;  // requests that continue without their clients
  };

 public:
  // Counts a connection while it lives; once its client has left, counts it as such.
  class Share {
   public:
    Share() = default;
    Share(AddressTable& table, const http::PeerNetwork& network) : table_(&table), network_(network) {}
    Share(const Share&) = delete;
    Share(Share&& other) noexcept
        : table_(std::exchange(other.table_, nullptr)), network_(other.network_), left_(other.left_) {}
    Share& operator=(Share other) noexcept {
      std::swap(table_, other.table_);
      std::swap(network_, other.network_);
      std::swap(left_, other.left_);
      return *this;
    }
    ~Share() {
      if (table_ != nullptr) table_->leave(network_, left_ ? &Counts::left : &Counts::open);
    }
    explicit operator bool() const { return table_ != nullptr; }
    // The number of connections from its address.
    std::size_t count() const { return counts().open; }
    std::size_t left() const { return counts().left; }
    const http::PeerNetwork& network() const { return network_; }
    void client_left() {
      if (table_ != nullptr && !std::exchange(left_, true)) table_->client_left(network_);
    }

   private:
    Counts counts() const { return table_ != nullptr ? table_->counts(network_) : Counts(); }

    AddressTable* table_ = nullptr;
    http::PeerNetwork network_;
    bool left_ = false;
  };

  // The share is empty if there are `most` already.
  Share enter(const http::PeerNetwork& network, std::size_t most);

 private:
  struct Hash {
    std::size_t operator()(const http::PeerNetwork& network) const;
  };
  struct Shard {
    std::mutex mutex;
    std::unordered_map<http::PeerNetwork, Counts, Hash> connections;
  };

  Shard& shard_of(const http::PeerNetwork& network) { return shards_[Hash()(network) % shards_.size()]; }
  void leave(const http::PeerNetwork& network, std::size_t Counts::* as);
  void client_left(const http::PeerNetwork& network);
  Counts counts(const http::PeerNetwork& network);

  std::array<Shard, 16> shards_;
};

}  // namespace once::gateway
