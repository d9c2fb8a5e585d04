#include "sim/byte_process.hpp"

#include <cstdio>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "core/fingerprint.hpp"
#include "gateway/identity/scope.hpp"
#include "sim/byte_marks.hpp"
#include "sim/loose_paths.hpp"

namespace once::sim {

namespace {

using namespace std::chrono_literals;

http::Endpoint address_of(std::uint8_t gateway) {
  return Network::address(fmt::format("192.0.2.{}", gateway + 1), 80);
}

http::Endpoint service_address_of(std::uint8_t gateway) {
  return Network::address(fmt::format("192.0.2.{}", gateway + 1), 81);
}

// The violation if a service request contains bytes of another caller; empty: none.
std::string judge_service(const http::ServiceRequest& request) {
  if (request.head.target.starts_with(smuggled_path)) return "a request inside of another one reached the service";
  unsigned caller = 0;
  const std::string token(request.head.find("Authorization").value_or(""));
  if (std::sscanf(token.c_str(), "tok-%u.", &caller) != 1) return "a request without a caller reached the service";
  const std::string foreign = foreign_token(request.body, caller);
  if (foreign.empty()) return "";
  return fmt::format("a request of {} to the service carries bytes of {}", token, foreign);
}

std::string code_in(std::string_view body) {
  constexpr std::string_view member = "\"code\":\"";
  const std::size_t at = body.find(member);
  if (at == std::string_view::npos) return "";
  const std::string_view rest = body.substr(at + member.size());
  return std::string(rest.substr(0, rest.find('"')));
}

}  // namespace

ByteProcess::ByteProcess(const Parts& parts, std::uint64_t seed)
    : parts_(parts),
      executor_(parts.world),
      lanes_(parts.network_to_store != nullptr ? static_cast<Store&>(*parts.network_to_store) : parts.store,
             parts.network_to_store, parts.world, parts.history, &executor_,
             parts.network_to_store != nullptr ? parts.setup.bytes.store_answers_late : 0),
      operators_({.world = parts.world,
                  .history = parts.history,
                  .store = lanes_.store(),
                  .lanes = lanes_,
                  .waiters = waiters_,
                  .home = executor_}),
      spool_(parts.world, parts.setup.bytes.spool_faults),
      gateway_({.network = parts.network,
                .store = lanes_,
                .waiters = waiters_,
                .clock = parts.clock,
                .settings = settings(),
                .listen = address_of(parts.number),
                .workers = parts.setup.bytes.workers,
                .seed = seed,
                .spool = &spool_}),
      clients_({.network = parts.network,
                .history = parts.history,
                .setup = parts.setup,
                .streams = parts.backend.streams(),
                .gateway = address_of(parts.number),
                .number = parts.number,
                .strangers = parts.backend.strangers,
                .reset_tunnels = parts.backend.reset_tunnels}),
      operators_clients_({.network = parts.network,
                          .history = parts.history,
                          .setup = parts.setup,
                          .streams = parts.backend.streams(),
                          .gateway = service_address_of(parts.number),
                          .number = parts.number,
                          .strangers = parts.backend.strangers,
                          .reset_tunnels = parts.backend.reset_tunnels}) {
  tap();
  if (parts.setup.bytes.service_strangers > 0) {
    gateway_.start_service(service_address_of(parts.number), judge_service,
                           [this](const std::string& what) { parts_.history.violated(what); });
  }
  gateway_.net().faults = [this](NetCall call) { return draw_fault(call); };
  gateway_.after_turn([this] { look(); });
  expect_strangers();
  expect_evaders();
  expect_reloads();
}

ByteProcess::~ByteProcess() {
  if (alive_) die();
}

ServingSettings ByteProcess::settings() const {
  const ByteSetup& setup = parts_.setup.bytes;
  ServingSettings all;
  Upstream upstream{.name = "backend"};
  for (unsigned i = 0; i < setup.servers; ++i) {
    upstream.servers.push_back({.host = ByteBackend::ip(i), .port = ByteBackend::port});
  }
  upstream.fail_timeout = 1s;
  if (!healed_) upstream.health = setup.health;
  all.upstreams.push_back(upstream);
  for (std::size_t i = 0; i < parts_.routes.size(); ++i) {
    Route route{.path = fmt::format("/route/{}", i), .upstream = upstream.name, .policy = parts_.routes[i]};
    route.policy.record.max_body = setup.max_body;
    route.policy.timeouts.connect = 2s;
    if (setup.large_requests()) route.policy.max_request_body = setup.max_request_body;
    if (setup.streams.any()) {
      route.policy.record.stream = setup.streams.recording[i];
      route.policy.record.max_stream = setup.streams.max_stream;
      route.policy.record.abandon_after = setup.streams.abandon_after;
      route.policy.timeouts.stream_idle = setup.streams.idle;
    }
    all.routes.push_back(route);
  }
  Route shadow{.path = std::string(shadow_route), .upstream = upstream.name, .policy = parts_.routes.front()};
  shadow.policy.mode = Mode::shadow;
  shadow.policy.methods.set(static_cast<std::size_t>(Method::post));
  shadow.policy.timeouts = {.connect = 2s, .response = 10s, .stream_idle = ByteBackend::pass_idle};
  all.routes.push_back(shadow);
  Route passing{.path = "/pass/**", .upstream = upstream.name};
  passing.policy.timeouts = {.connect = 2s, .response = 10s, .stream_idle = ByteBackend::pass_idle};
  all.routes.push_back(passing);
  if (setup.evaders > 0) {
    Route pays{.path = fmt::format("/{}/**", required_folder), .upstream = upstream.name, .policy = passing.policy};
    pays.policy.methods.set(static_cast<std::size_t>(Method::post));
    pays.policy.key.required = Required::yes;
    all.routes.push_back(pays);
  }
  all.limits = setup.limits;
  // In the end every caller must get an answer, so lift the limits per caller: bytes may stay stored until after the
  // run.
  if (healed_) all.limits.caller = all.limits.address = {};
  // Set a limit that is never reached, so that stored bytes are always counted.
  if (all.limits.caller.stored_bytes == 0) all.limits.caller.stored_bytes = std::size_t{1} << 40U;
  // Lift these limits, too: one reader may use up the memory, and one body the disk space.
  if (healed_ && setup.streams.any()) all.limits.max_body_memory = Limits().max_body_memory;
  if (healed_) all.limits.max_spool = Limits().max_spool;
  all.timeouts = setup.timeouts;
  all.upgrades = {"websocket"};
  return all;
}

void ByteProcess::tap() {
  SimNet::Tap& tap = gateway_.net().tap;
  tap.accepted = [this](std::uint64_t link) { from_clients_.insert(link); };
  tap.sent = [this](std::uint64_t link, std::string_view bytes) {
    if (from_clients_.contains(link)) {
      clients_.gateway_sent(link, bytes);
      operators_clients_.gateway_sent(link, bytes);
    } else {
      parts_.backend.gateway_sent(link, executor_, bytes);
    }
  };
  tap.received = [this](std::uint64_t link, std::string_view bytes) {
    if (from_clients_.contains(link)) return;
    if (parts_.backend.gateway_received(link, bytes) == ByteBackend::Received::before_request) follow_half_written();
  };
  tap.received_end = [this](std::uint64_t link) {
    if (!from_clients_.contains(link)) parts_.backend.gateway_received_end(link);
  };
  tap.closed = [this](std::uint64_t link) {
    if (from_clients_.contains(link)) {
      clients_.gateway_closed(link);
      operators_clients_.gateway_closed(link);
    } else {
      check_abandoned(link);
      parts_.backend.gateway_closed(link);
    }
  };
}

NetFault ByteProcess::draw_fault(NetCall call) {
  if (healed_ || call == NetCall::add) return NetFault::none;
  Draw& draw = parts_.world.draw;
  const ByteSetup& setup = parts_.setup.bytes;
  if (setup.call_resets > 0 && draw.below(10'000) < setup.call_resets) return NetFault::reset;
  if (setup.call_faults == 0 || draw.below(1000) >= setup.call_faults) return NetFault::none;
  const bool opens = call == NetCall::accept || call == NetCall::connect;
  if (opens && draw.one_in(2)) return NetFault::no_descriptors;
  return draw.one_of({NetFault::again, NetFault::interrupted, NetFault::brief});
}

void ByteProcess::expect_strangers() {
  for (unsigned i = 0; i < parts_.setup.bytes.strangers; ++i) {
    parts_.world.after(parts_.world.draw.below(parts_.setup.length), [this] {
      if (alive_ && !healed_) clients_.stranger();
    });
  }
  for (unsigned i = 0; i < parts_.setup.bytes.service_strangers; ++i) {
    parts_.world.after(parts_.world.draw.below(parts_.setup.length), [this] {
      if (alive_ && !healed_) operators_clients_.stranger();
    });
  }
}

void ByteProcess::expect_evaders() {
  for (unsigned i = 0; i < parts_.setup.bytes.evaders; ++i) {
    parts_.world.after(parts_.world.draw.below(parts_.setup.length), [this] {
      if (alive_ && !healed_) clients_.evader();
    });
  }
}

void ByteProcess::expect_reloads() {
  for (unsigned i = 0; i < parts_.setup.bytes.reloads; ++i) {
    parts_.world.after(parts_.world.draw.below(parts_.setup.length), [this] { reload(); });
  }
}

void ByteProcess::reload() {
  if (!alive_) return;
  parts_.world.note("gateway: reloads");
  if (!gateway_.reload(settings())) parts_.world.after(100ms, [this] { reload(); });
}

// A response arrived before its request was sent completely, so its connection must not be reused. Sends another
// request soon, because idle connections are reused only for a moment.
void ByteProcess::follow_half_written() {
  if (healed_ || !parts_.world.draw.one_in(2)) return;
  parts_.world.after(parts_.world.draw.between(1ms, 300ms), [this] {
    if (alive_ && !healed_) clients_.passer_by();
  });
}

// A stream that nothing disturbs is ended early only if it has no reader, or its caller stops it.
void ByteProcess::check_abandoned(std::uint64_t link) {
  const ByteSetup& setup = parts_.setup.bytes;
  const bool undisturbed = parts_.history.leaves_live_owners_alone() && parts_.setup.disk_faults == 0 &&
                           setup.call_resets == 0 && setup.weather.cuts == 0 && setup.streams.stops == 0;
  if (!alive_ || healed_ || !undisturbed) return;
  const auto execution = parts_.backend.streams_on(link);
  // The gateway may have abandoned the stream just before its reader came.
  if (!execution || !clients_.reads_since(*execution, parts_.world.now() - 1s)) return;
  parts_.history.violated(fmt::format("the stream of execution {} was abandoned although it was read", *execution));
}

// Called after every round of a worker.
void ByteProcess::look() {
  for (; faults_reported_ < gateway_.faults().size(); ++faults_reported_) {
    parts_.history.violated("a connection broke an invariant: " + gateway_.faults()[faults_reported_]);
  }
  if (parts_.setup.bytes.large_body == 0 || memory_reported_ || gateway_.sum(&Metrics::bodies_dropped) > 0) return;
  const std::size_t held = clients_.held_for_readers();
  const std::size_t counted = gateway_.shared().usage.body_bytes;
  if (held <= counted) return;
  memory_reported_ = true;
  parts_.history.violated(fmt::format("{} bytes of responses wait for their clients, {} are counted", held, counted));
}

void ByteProcess::ask(const Asked& asked, std::function<void(const Answer&)> answered) {
  ONCE_ASSERT(alive_);
  clients_.ask(asked, [this, asked, answered = std::move(answered)](
                          const Message& response, ByteClients::Received received, ByteClients::Form form) {
    if (received == ByteClients::Received::part) return report_part(asked, response, answered);
    if (alive_) report(asked, response, form, answered);
  });
}

void ByteProcess::report_part(const Asked& asked, const Message& response,
                              const std::function<void(const Answer&)>& answered) {
  const std::string status = response.field("Idempotency-Status");
  parts_.world.note(fmt::format("reply: operation {} of caller {}: {} {} cut off after {} bytes", asked.operation,
                                asked.caller, response.status, status, response.body.size()));
  answered({.asked = asked, .status = response.status, .idempotency_status = status, .code = "cut-off"});
}

void ByteProcess::stop(const Asked& asked) {
  const Named named = name_of(asked);
  clients_.stop(asked, named.id);
}

// Identifies the request as gateways do.
ByteProcess::Named ByteProcess::name_of(const Asked& asked) const {
  const std::size_t routes = parts_.routes.size();
  const WireName name = wire_name(asked.operation, routes);
  const Policy& policy = parts_.routes[name.route];
  const std::string body = keyed_body(name.key, asked.content);
  const std::string head_text = keyed_head(asked, routes) + fmt::format("Content-Length: {}\r\n\r\n", body.size());
  http::RequestHead head;
  const auto parsed = http::parse(head_text, http::HeadLimits(), head);
  ONCE_ASSERT(parsed.parsed == http::Parsed::complete);
  const ScopeParts scope(policy, head);
  return {.id = gateway_.ids().make(scope.parts(), fmt::format("key-{}", name.key)),
          .fingerprint = fingerprint(policy.fingerprint, head.method_text, head.target, "", body)};
}

void ByteProcess::report(const Asked& asked, const Message& response, ByteClients::Form form,
                         const std::function<void(const Answer&)>& answered) {
  const Named named = name_of(asked);
  Answer answer{.asked = asked,
                .status = response.status,
                .idempotency_status = response.field("Idempotency-Status"),
                .id = named.id,
                .fingerprint = named.fingerprint};
  const bool problem = response.field("Content-Type") == "application/problem+json";
  if (problem) answer.code = code_in(response.body);
  const StreamBook& streams = parts_.backend.streams();
  if (!problem) answer.body = streams.with_beginning(response);
  // A lookup has no body to compare: it returns whatever is recorded.
  const auto given = streams.asked_of(response);
  const bool compared = form == ByteClients::Form::request;
  if (!compared && given) answer.asked.content = given->content;
  // Append the status and two fields, which a replay must repeat, so that they are compared, too.
  if (!problem && !answer.body.starts_with("resolved=")) {
    answer.body +=
        fmt::format(" {} {} {}", response.status, response.field("X-Caller"), response.field("Content-Type"));
  }
  parts_.world.note(fmt::format("reply: operation {} of caller {}, content {}: {} {} {}", asked.operation, asked.caller,
                                asked.content, answer.status, answer.idempotency_status,
                                answer.code.empty() ? answer.body.substr(0, 80) : answer.code));
  // A relayed response is not kept. One that its backend ended by closing may be incomplete without notice.
  const bool may_be_part = !problem && answer.idempotency_status == "executed" && !response.has(framed_field);
  const bool kept = streams.is_recorded_stream(response) || response.body.size() <= parts_.setup.bytes.max_body;
  // Not checked: a response without an execution number that starts at an offset, as its first part may be of another
  // execution; a lookup, which compares no body; and an interrupted response that was stopped before the stop was
  // recorded.
  const bool stopped = StreamBook::is_stopped(response);
  const bool anything = !given && (response.has("Idempotency-Offset") || !compared || stopped);
  // An unchunked stream whose connection was cut after its last byte looks complete.
  const bool until_close = response.framing == Message::Framing::until_close && streams.is_recorded_stream(response);
  if (kept && !may_be_part && !anything && !until_close) parts_.history.answered(answer);
  answer.asked = asked;
  answered(answer);
}

void ByteProcess::pause(Duration length) {
  gateway_.pause(length);
  executor_.pause(length);
}

void ByteProcess::heal() {
  healed_ = true;
  lanes_.heal();
  clients_.heal();
  operators_clients_.heal();
  spool_.heal();
  const ByteSetup& setup = parts_.setup.bytes;
  const bool has_small_limits = (setup.memory_is_short() && setup.streams.any()) || setup.large_requests();
  if (setup.limits_callers() || setup.checks_health() || has_small_limits) reload();
}

std::size_t ByteProcess::counted_for(const TenantTag& caller) {
  GatewayShared& shared = gateway_.shared();
  return shared.quotas->callers.stored_bytes(caller, shared.clock.running());
}

void ByteProcess::check_left_over(std::string_view when) {
  for (const std::string& left : gateway_.left_over()) parts_.history.violated(fmt::format("{}: {}", when, left));
}

void ByteProcess::die() {
  if (!std::exchange(alive_, false)) return;
  operators_.cut_off();
  lanes_.cut_off();
  clients_.gateway_died();
  operators_clients_.gateway_died();
  if (gateway_.die()) {
    check_left_over("after the gateway was killed");
  } else {
    parts_.history.violated("a gateway that was killed does not end");
  }
  executor_.run_out();
}

void ByteProcess::wind_down() {
  clients_.leave();
  operators_clients_.leave();
  gateway_.drain({.limit = std::chrono::hours(1)});
}

void ByteProcess::has_wound_down() {
  if (!gateway_.stopped()) return parts_.history.violated("a gateway that drains does not end");
  check_left_over("after the gateway has drained");
  alive_ = false;
  operators_.cut_off();
  lanes_.cut_off();
  executor_.run_out();
}

}  // namespace once::sim
