// One client's connection: reads requests one after the other, sends each to the exchange or straight through, writes
// the reply, and keeps the account of it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/task.hpp"
#include "core/key.hpp"
#include "gateway/connection/client_io.hpp"
#include "gateway/connection/cors.hpp"
#include "gateway/connection/presence.hpp"
#include "gateway/connection/reply.hpp"
#include "gateway/exchange/conditional.hpp"
#include "gateway/exchange/exchange.hpp"
#include "gateway/identity/identify.hpp"
#include "gateway/identity/tenant_memo.hpp"
#include "gateway/limits/caller_limits.hpp"
#include "gateway/limits/load.hpp"
#include "gateway/limits/response_memory.hpp"
#include "gateway/passthrough/passthrough.hpp"
#include "gateway/worker.hpp"

namespace once {

class Shadow;

class Client final : private ServedConnection,
                     private InterimSink,
                     private Presence,
                     private RoomMaker,
                     private http::Socket::Watcher {
 public:
  Client(Worker& worker, const http::Socket::Accepted& accepted, Over over, AddressTable::Share address);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  // Serves until the connection ends.
  Task<void> run();

 private:
  enum class Next : std::uint8_t { request, close, refused };
  enum class BodyRead : std::uint8_t { whole, too_large, no_room, malformed, timed_out, refused, gone };

  void close_if_idle() override;
  void refuse_unread() override;
  std::chrono::nanoseconds debt() const override;
  void displace() override;
  std::size_t neighbours() const override { return address_.count(); }
  bool holds_response() const override { return reply_.body.size() > ToldOutcomes::largest_uncounted; }
  void make_room() override { worker_.displace_reader(neighbours()); }
  Task<void> interim(const http::ResponseHead& head) override;
  bool listen(Presence::Listener& listener) override;
  void stop_listening() override;
  void peer_moved(http::Socket::Peer what) override;

  static constexpr std::size_t first_buffer_size = 8192;
  static constexpr CallerTable::Refusal at_work_refusal{.limit = CallerLimit::in_flight, .retry_after_seconds = 1};

  Task<bool> shake_hands();
  // Between requests: what a connection holds is given back when it idles.
  Task<http::IoResult> wait_for_request();
  void rest();

  void forget_last_request();
  void note_first_bytes();
  Task<Next> read_head();
  Task<void> refuse(http::HeadError error);
  Task<void> answer();
  // Without a key, one is derived from the body.
  Task<void> answer_keyed(const RoutedPolicy& routed, const std::optional<Key>& key);
  IdentityRules rules();
  RequestFacts facts();
  PeerTrust trust();
  AskedHost asked_host();
  PassedRequest passed_request(const RoutedPolicy& routed);
  Task<void> answer_unkeyed(const RoutedPolicy& routed, PassObserver* observer = nullptr);
  // A write without a key on a route with if_match, or one that ends a life.
  Task<void> answer_guarded(const RoutedPolicy& routed);
  bool left_while_waiting();
  Task<void> answer_passed(const PassedResult& result);
  Task<void> leave_after_stream(const Policy& policy, bool relayed);
  Task<void> answer_shadow(const RoutedPolicy& routed, RequestKey key);
  Task<void> refuse_overload(Overload limit);
  Task<void> refuse_caller(CallerTable::Refusal refusal);
  // What is said to a key that would be one too many; nothing if it may go on.
  Task<std::optional<CallerTable::Refusal>> refused_key(CallerUse& caller, const std::optional<TenantTag>& address);
  std::optional<CallerTable::Refusal> take_key(CallerUse& caller, const std::optional<TenantTag>& address);
  void count_for(CallerUse& caller, const std::optional<TenantTag>& address, const Policy& policy);
  std::optional<BodyRead> body_at_hand(std::size_t limit);
  Task<BodyRead> read_body(std::size_t limit);
  Task<void> refuse_body(BodyRead read);
  // Of a request that is refused because it was still coming in.
  Task<void> answer_unread();
  KeyedRequest keyed_request(const RoutedPolicy& routed, Backend& backend, const RequestIdentity& identity);
  const Origin* origin();
  // Of a write whose conditions are checked here; made when the first one comes.
  WriteGuard& guard();
  Task<void> answer_preflight(const Policy& policy);
  Task<bool> answered_preflight();
  Task<void> answer_options();
  void close_unless_read();
  Task<void> write_problem_reply(ProblemKind kind, std::string detail, std::optional<int> retry_after = std::nullopt);
  Task<void> write_problem_reply(Problem answer);
  ProblemForm problem_form() const { return {.type_base = shared_.errors_base, .wording = *wording_}; }
  // False: the client, or the backend in the midst of it, is gone.
  Task<bool> write_reply();
  Task<bool> stream_rest(bool chunked);
  Task<void> linger();

  void begin_request();
  void begin_logging();
  void account();
  void may_need_store(bool may);

  Worker& worker_;
  GatewayShared& shared_;
  const AddressTable::Share address_;
  GenerationUse generation_;  // that serves the request at hand
  ClientIo io_;
  ResponseMemory memory_;
  TagRoom tag_room_;
  Exchange exchange_;
  PassThrough pass_;
  std::optional<Origin> origin_;  // known with the first request
  std::unique_ptr<WriteGuard> guard_;
  Presence::Listener* departure_ = nullptr;  // to be told when the client leaves
  std::optional<CorsGrant> cors_;            // of the route of the request at hand
  Reply reply_;
  RouteMetrics* counts_ = nullptr;  // of the route of the request at hand
  const Wording* wording_;          // of that route
  std::string request_id_;
  bool logged_ = false;           // the request at hand is in the access log
  std::string_view trace_;        // id, of the request at hand; looked for if it is logged, like the next two
  std::string_view logged_from_;  // the client's address
  std::string forwarded_from_;    // room for it
  std::string_view route_;        // of the request at hand; empty: none
  UpstreamUse upstream_use_;
  std::uint64_t sent_before_ = 0;  // bytes, to earlier requests of the connection
  std::string route_path_;         // room for the path as routes see it
  std::string_view normal_path_;   // that path
  HeldBody body_;                  // of a keyed or guarded request, when it does not lie in the buffer as a whole
  std::string_view whole_body_;
  std::chrono::nanoseconds began_{};
  OperationId operation_;
  TenantMemo tenant_;
  std::shared_ptr<Shadow> shadow_;        // of the request at hand, on a route in shadow mode
  std::optional<ProblemKind> passed_as_;  // what a request that passed through was answered with, if by us
  bool keyed_ = false;
  bool fresh_ = true;         // no byte of a request has come
  bool has_key_ = false;      // and passes through
  bool key_ignored_ = false;  // it has a key, and its route does not honour keys on its method
  bool keep_ = true;
  bool idle_ = false;
  bool waits_for_client_ = false;  // since began_: for a head or a handshake
  bool reads_request_ = false;     // its head, or a body that has to be whole before anything is decided
  bool unread_refused_ = false;    // while it was read
  bool displaced_ = false;
  bool may_need_store_ = false;
  bool body_unread_ = false;  // closing at once would reset the connection under the client's reply
};

}  // namespace once
