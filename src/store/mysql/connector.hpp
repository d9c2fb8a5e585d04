// Makes connections that the store can use: to the host that worked last, or the next one that does, with the schema of
// this version.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "store/mysql/connection.hpp"

namespace once::mysql {

class Connector {
 public:
  Connector(Target target, const ServerSettings& settings) : target_(std::move(target)), settings_(settings) {}

  // Any thread. Not retryable only if no host has an error that may pass. Another host is tried until then.
  Result<std::unique_ptr<Connection>> connect(std::chrono::nanoseconds until);

  // Its server does not take writes now: the next connection goes to another, if there is one.
  void avoid(const Connection& connection);

  std::size_t hosts() const { return target_.hosts.size(); }
  // Of the server connected to last; before that a careful guess.
  std::size_t max_packet() const { return max_packet_.load(std::memory_order_relaxed); }

 private:
  const Target target_;
  const ServerSettings settings_;
  std::atomic<std::size_t> first_{0};
  std::atomic<std::size_t> max_packet_{1024UZ * 1024};
};

}  // namespace once::mysql
