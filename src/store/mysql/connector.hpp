// Opens connections for the store, to the last host that worked or the next one that does, and checks the schema.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "store/mysql/connection.hpp"

namespace once::mysql {

class Connector {
 public:
  Connector(Target target, const ServerSettings& settings) : target_(std::move(target)), settings_(settings) {}

  // Thread-safe. The error is permanent only if those of all hosts are. Tries other hosts until the deadline.
  Result<std::unique_ptr<Connection>> connect(std::chrono::nanoseconds until);

  // This server refuses writes now: the next connection goes to another host, if there is one.
  void avoid(const Connection& connection);

  std::size_t hosts() const { return target_.hosts.size(); }
  // The limit of the last connected server; before the first connection, a safe assumption.
  std::size_t max_packet() const { return max_packet_.load(std::memory_order_relaxed); }

 private:
  const Target target_;
  const ServerSettings settings_;
  std::atomic<std::size_t> first_{0};
  std::atomic<std::size_t> max_packet_{1024UZ * 1024};
};

}  // namespace once::mysql
