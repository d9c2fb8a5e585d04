// The addresses of a server: published by the resolver thread, read by every loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "http/endpoint.hpp"

namespace once::http {

using Endpoints = std::vector<Endpoint>;

// resolve(), or a test double. Blocks, so it must not be called on a loop.
using Resolver = std::function<Result<Endpoints>(const std::string& host, const std::string& port)>;

bool same_address(const Endpoint& one, const Endpoint& other);
bool contains(const Endpoints& endpoints, const Endpoint& wanted);
// Compares without order, because name servers rotate their answers.
bool same_addresses(const Endpoints& one, const Endpoints& other);

class Addresses {
 public:
  explicit Addresses(Endpoints endpoints) : current_(std::make_shared<const Endpoints>(std::move(endpoints))) {}
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;

  // A number that grows with every change of the addresses. Cheap enough to check before each use.
  std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  std::shared_ptr<const Endpoints> current() const;
  void publish(Endpoints endpoints);

 private:
  std::atomic<std::uint64_t> generation_ = 1;
  mutable std::mutex changing_;
  std::shared_ptr<const Endpoints> current_;
};

}  // namespace once::http
