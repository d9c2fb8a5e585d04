// One request on a connection, from its first byte until it is accounted for: the settings it is served by, its route,
// its names in log and reply, and whether the connection can be used for another one. Made anew for each request.
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

// Counted while a request may still need the store: a handover of the store waits until no request does.
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

// Strings of a connection that are reused from request to request.
struct RequestScratch {
  std::string id;
  std::string path;
};

// What becomes of the connection after a request.
enum class After : std::uint8_t {
  keep,
  close,
  linger,  // close, but read what the client still sends: closing at once would reset the connection under the reply
};

struct RequestContext {
  // When the first bytes of the request have come: it is served by the settings of this moment.
  RequestContext(Worker& worker, ClientIo& on, RequestScratch& reused);
  RequestContext(const RequestContext&) = delete;
  RequestContext& operator=(const RequestContext&) = delete;

  // The head is complete: the request gets its id, and what the access log needs.
  void head_arrived(Random& random);
  void take_route(const RoutedPolicy& found);

  const ServingSettings& settings() const { return generation->settings(); }
  std::string_view id() const { return scratch.id; }  // empty before head_arrived()
  // What identifies the request (gateway/identity).
  IdentityRules rules() const;
  RequestFacts facts() const;
  // Null: it is not a write that Once knows more about than its key. With a presence, a client that leaves while the
  // write waits for its turn takes the request with it.
  std::unique_ptr<ResourceWrite> resource_write(const ExchangePorts& ports, Presence* presence);

  // Unread body bytes would be parsed as the next request, so the connection closes.
  void close_unless_read();
  // The rest of the request is not read, whatever was read so far.
  void close_unread();
  After after() const {
    if (keep) return After::keep;
    if (io.socket.resets()) return After::close;  // nothing that lingering could save
    return body_unread || (replied && io.has_more()) ? After::linger : After::close;
  }

  GatewayShared& shared;
  ClientIo& io;
  RequestScratch& scratch;
  const GenerationUse generation;
  const std::chrono::nanoseconds began;
  const std::uint64_t sent_before;  // bytes, to earlier requests of the connection
  const bool logged;                // in the access log
  const Origin& origin;
  StoreNeed store_need;

  RoutedPolicy route;
  std::string_view path;  // in normal form
  RouteMetrics* counts;   // of the route
  const Wording* wording;
  std::optional<CorsGrant> cors;
  bool key_ignored = false;              // it has a key, and the route does not honour keys on its method …
  bool says_ignored = false;             // … and the reply says so
  std::optional<OperationId> operation;  // with a key
  std::shared_ptr<Shadow> shadow;        // on a route in shadow mode
  UpstreamUse upstream_use;

  // For the access log.
  std::string_view trace;
  std::string_view client_address;
  std::string forwarded_from;  // holds that address if a trusted proxy says it

  bool keep = true;
  bool body_unread = false;
  bool replied = false;  // with a whole response, which the client may still be reading
};

}  // namespace once::gateway
