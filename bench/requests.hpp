// The requests that the journal's benchmarks send, and what they are sent to. A request is known by its number, so that
// ten million of them take no memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/record.hpp"

namespace once::bench {

constexpr std::size_t outcome_size = 250;

struct Request {
  OperationId id;
  Nonce nonce;
  OutcomeBytes outcome;
};

// splitmix64.
inline std::uint64_t mixed(std::uint64_t value) {
  value += 0x9e37'79b9'7f4a'7c15U;
  value = (value ^ (value >> 30U)) * 0xbf58'476d'1ce4'e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d0'49bb'1331'11ebU;
  return value ^ (value >> 31U);
}

inline Request request_number(std::uint64_t number) {
  Request request;
  for (std::size_t part = 0; part < 4; ++part) {
    const std::uint64_t bits = mixed(number * 4 + part);
    std::memcpy(request.id.bytes.data() + part * sizeof bits, &bits, sizeof bits);
  }
  std::memcpy(request.nonce.bytes.data(), request.id.bytes.data() + 8, request.nonce.bytes.size());
  return request;
}

// The next `count` requests from `number` on. Each has an outcome of its own, as it would have from a backend.
inline void fill(std::vector<Request>& batch, std::uint64_t number, std::size_t count) {
  batch.clear();
  for (std::size_t i = 0; i < count; ++i) {
    batch.push_back(request_number(number + i));
    batch.back().outcome = std::make_shared<const std::string>(outcome_size, 'x');
  }
}

// A store, as far as it is measured. Each call is one batch, durable when it returns if the store was opened so.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual void claim(std::span<const Request> batch) = 0;   // nobody has the key yet
  virtual void finish(std::span<const Request> batch) = 0;  // record the outcome
  virtual void replay(std::span<const Request> batch) = 0;  // find the outcome
};

}  // namespace once::bench
