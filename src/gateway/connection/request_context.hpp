// One request on a connection, from its first byte until it is counted: its settings, its route, its names in logs and
// replies, and whether the connection can be reused. Created for each request.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "gateway/connection/client_io.hpp"
#include "gateway/connection/cors.hpp"
#include "gateway/connection/reply.hpp"
#include "gateway/exchange/backend.hpp"
#include "gateway/exchange/exchange_ports.hpp"
#include "gateway/generation.hpp"
#include "gateway/identity/identify.hpp"
#include "gateway/metrics.hpp"
#include "gateway/worker.hpp"
#include "store/owner_wait.hpp"

namespace once::gateway {

class ResourceWrite;
class Shadow;

// Counts a request that may still need the store: a handover of the store waits for all of them.
class StoreNeed {
 public:
  explicit StoreNeed(Counter& count) : count_(&count) { count.add(); }
  StoreNeed(const StoreNeed&) = delete;
  StoreNeed& operator=(const StoreNeed&) = delete;
  ~StoreNeed() { end(); }

  void end() {
    if (count_ != nullptr) std::exchange(count_, nullptr)->subtract();
  }

 private:
  Counter* count_;
};

// String buffers of a connection, reused from request to request.
struct RequestScratch {
  std::string id;
  std::string path;
};

// Whether a step has answered the request.
enum class Answered : std::uint8_t { no, yes };

// What to do with the connection after a request.
enum class After : std::uint8_t {
  keep,
  close,
  // close, but read first what the client still sends: closing at once would reset the connection and could destroy the
  // reply
  linger,
};

struct RequestContext {
  // Create when the first bytes of the request arrive: it is served with the settings of that moment.
  RequestContext(Worker& worker, ClientIo& on, RequestScratch& reused);
  RequestContext(const RequestContext&) = delete;
  RequestContext& operator=(const RequestContext&) = delete;

  // Call when the head is complete: sets the request id and the access log's fields.
  void head_arrived(Random& random);
  void take_route(const RoutedPolicy& found);

  const ServingSettings& settings() const { return generation->settings(); }
  std::string_view id() const { return scratch.id; }  // empty before head_arrived()
  // The inputs for identifying the request (gateway/identity).
  IdentityRules rules() const;
  RequestFacts facts() const;
  // Null if the request is no resource write. With a presence, a client that leaves while the write waits for its turn
  // cancels the request.
  std::unique_ptr<ResourceWrite> resource_write(const ExchangePorts& ports, Presence* presence);

  // Unread body bytes would be parsed as the next request, so the connection closes.
  void close_unless_read();
  // The rest of the request will not be read, so the connection closes.
  void close_unread();
  After after() const {
    if (keep) return After::keep;
    if (io.socket.resets()) return After::close;  // the connection is reset anyway, so lingering cannot save the reply
    return body_unread || (replied && io.has_more()) ? After::linger : After::close;
  }

  GatewayShared& shared;
  ClientIo& io;
  RequestScratch& scratch;
  const GenerationUse generation;
  const std::chrono::nanoseconds began;
  const std::uint64_t sent_before;  // bytes sent to earlier requests of the connection
  const bool logged;                // in the access log
  const Origin& origin;
  StoreNeed store_need;

  RoutedPolicy route;
  std::string_view path;  // in normal form
  RouteMetrics* counts;   // of the route
  const Wording* wording;
  std::optional<CorsGrant> cors;
  bool key_ignored = false;              // it has a key, but the route does not honour keys for its method …
  bool says_ignored = false;             // … and the reply should say so
  std::optional<OperationId> operation;  // set if it has a key
  std::shared_ptr<Shadow> shadow;        // set on a route in shadow mode
  UpstreamUse upstream_use;

  // Fields of the access log.
  std::string_view trace;
  std::string_view client_address;
  std::string forwarded_from;  // storage of that address if a trusted proxy forwarded it

  bool keep = true;
  bool body_unread = false;
  bool replied = false;  // the whole response was written; the client may still be reading it
};

}  // namespace once::gateway
