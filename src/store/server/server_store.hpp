// What the stores on servers (Redis, PostgreSQL, MySQL) have in common: connections, the removal of expired records,
// and metrics about both.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "store/store.hpp"

namespace once::store {

struct ServerStats {
  std::uint64_t connections = 0;  // open now
  std::uint64_t connects = 0;     // since the start
  std::uint64_t connect_failures = 0;
  std::uint64_t indeterminate = 0;  // operations without an answer
  std::uint64_t retried = 0;        // retried safely after deadlocks, lock or certification failures, redirections
  std::uint64_t swept = 0;          // expired records removed by this gateway
  std::uint64_t notified = 0;       // notifications from the server about ended operations
};

// The same as atomic counters, for any thread.
struct ServerCounts {
  std::atomic<std::uint64_t> connections{0};
  std::atomic<std::uint64_t> connects{0};
  std::atomic<std::uint64_t> connect_failures{0};
  std::atomic<std::uint64_t> indeterminate{0};
  std::atomic<std::uint64_t> retried{0};
  std::atomic<std::uint64_t> swept{0};
  std::atomic<std::uint64_t> notified{0};

  ServerStats read() const {
    const auto value = [](const std::atomic<std::uint64_t>& count) { return count.load(std::memory_order_relaxed); };
    return {.connections = value(connections),
            .connects = value(connects),
            .connect_failures = value(connect_failures),
            .indeterminate = value(indeterminate),
            .retried = value(retried),
            .swept = value(swept),
            .notified = value(notified)};
  }
};

enum class More : std::uint8_t { no, yes };

struct Swept {
  std::uint64_t removed = 0;
  More more = More::no;  // more expired records may be left
};

class ServerStore : public Store {
 public:
  void execute(std::span<Op* const> batch) override { execute_until(monotonic_now() + time_limit(), batch); }
  void execute_until(std::chrono::nanoseconds until, std::span<Op* const> batch) override = 0;
  Duration time_limit() const override = 0;

  // Removes up to `limit` expired records in one short transaction that does not block claims. Does nothing if the
  // server expires records itself. For one thread at a time, concurrently with execute().
  virtual Result<Swept> sweep(std::size_t limit) = 0;

  ServerStats stats() const { return counts_.read(); }
  StoreReport report() const override;

 protected:
  ServerCounts counts_;
};

}  // namespace once::store
