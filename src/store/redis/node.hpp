// A Redis server and its connections, and how a connection is set up.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "store/redis/link.hpp"
#include "store/redis/options.hpp"
#include "store/redis/script.hpp"
#include "store/redis/tls.hpp"
#include "store/server/connection_pool.hpp"
#include "store/server/server_clock.hpp"
#include "store/server/settings.hpp"

namespace once::redis {

// Signals that a node went down, for the reviver (reviver.hpp).
class Bell {
 public:
  void ring();
  enum class Woken : std::uint8_t { to_revive, to_end };
  Woken wait_for_ring();
  Woken pause(Duration how_long);
  void end();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
  bool ended_ = false;
};

// What the parts of one store share.
struct Context {
  Context(Options the_options, const ServerSettings& the_settings, TlsContext the_tls, const Log& the_log,
          ServerCounts& the_counts)
      : options(std::move(the_options)),
        settings(the_settings),
        tls(std::move(the_tls)),
        log(the_log),
        counts(the_counts) {}

  const Options options;
  const ServerSettings settings;
  const TlsContext tls;  // null: plain
  const Log& log;
  ServerCounts& counts;
  const Scripts scripts;
  std::atomic<bool> durable{true};  // until a server reports otherwise
  std::atomic<bool> warned_of_eviction{false};
  std::atomic<bool> warned_of_loss{false};
  Bell down;
};

// Connects, logs in and checks that the server answers. An error with Retryable::no is permanent: refused credentials,
// or an untrusted certificate.
Result<std::unique_ptr<Link>> greet(const Context& context, const StoreHost& host, const Credentials& login,
                                    Deadline deadline);

// One command and its reply; an error reply is an error.
Result<Reply> ask(Link& link, std::initializer_list<std::string_view> command, Deadline deadline);

// While a node is down (unreachable, or timed out), calls that need it fail at once. It is up again once it has
// answered outside a batch.
class Node {
 public:
  // `number` grows from node to node. A batch that needs several nodes takes their links in this order, which prevents
  // deadlocks.
  Node(Context& context, StoreHost host, std::uint64_t number);

  using Lease = ConnectionPool<Link>::Lease;
  Result<Lease> take(Deadline deadline) { return take(links_, deadline); }
  // A separate link, so that no request waits for a search.
  Result<Lease> take_for_search(Deadline deadline) { return take(search_links_, deadline); }

  void go_down(const Error& why);
  bool is_down() const { return down_.load(std::memory_order_relaxed); }
  // Connects, if the node is down. Called by one thread, outside batches.
  void revive(Deadline deadline);

  const StoreHost& host() const { return host_; }
  std::uint64_t number() const { return number_; }
  ServerClock& clock() { return clock_; }

 private:
  Result<Lease> take(ConnectionPool<Link>& links, Deadline deadline);
  // If it fails, the node goes down.
  Result<std::unique_ptr<Link>> connect(Deadline deadline);
  Result<std::unique_ptr<Link>> try_to_connect(Deadline deadline);
  // Once per node: checks the version, loads the scripts, and warns about settings that can lose records.
  Result<void> inspect(Link& link, Deadline deadline);
  void warn_of(std::string_view policy, std::string_view appendonly, std::string_view appendfsync);

  Context& context_;
  const StoreHost host_;
  const std::uint64_t number_;
  ServerClock clock_;
  std::atomic<bool> inspected_{false};
  std::atomic<bool> down_{false};
  std::mutex why_mutex_;
  Error why_down_;
  ConnectionPool<Link> links_;
  ConnectionPool<Link> search_links_;
};

}  // namespace once::redis
