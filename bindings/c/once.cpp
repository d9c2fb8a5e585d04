// The C interface: every function of once/once.h, each a few lines around the gate's core.
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include <once/once.h>
#include <openssl/crypto.h>

#include "arguments.hpp"
#include "broken.hpp"
#include "event_queue.hpp"
#include "gate/core.hpp"
#include "gate/per_process.hpp"

namespace {

using namespace once;
using abi::entered;
using abi::EventQueue;
using abi::fail;
using abi::OwnedEvent;
using gate::Cancelled;
using gate::Completion;

// The state of a gate in one process.
struct Instance {
  std::shared_ptr<gate::Core> core;
  std::shared_ptr<EventQueue> queue;
};

using Instances = gate::PerProcess<Instance, gate::OpenError>;

gate::LogTarget log_target(std::uint32_t log, const std::shared_ptr<EventQueue>& queue) {
  switch (log) {
    case ONCE_LOG_STDERR: return {.kind = gate::LogTarget::Kind::standard_error};
    case ONCE_LOG_OFF: return {.kind = gate::LogTarget::Kind::off};
    default: break;
  }
  return {.kind = gate::LogTarget::Kind::sink, .sink = [queue](std::string_view line) { queue->push_log(line); }};
}

Instances::Made open_instance(const gate::Options& options, std::uint32_t log) {
  // Threads of the gate may still run when the process exits: OpenSSL must not clean up before them.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  auto queue = std::make_shared<EventQueue>();
  abi::handle_broken_invariants(queue);
  auto core = gate::Core::open(options, log_target(log, queue));
  if (!core) return std::unexpected(std::move(core.error()));
  return std::make_shared<Instance>(*std::move(core), std::move(queue));
}

once_status status_of(gate::OpenError::Kind kind) {
  return kind == gate::OpenError::Kind::settings ? ONCE_CONFIG : ONCE_UNAVAILABLE;
}

once_status status_of(gate::Ask ask) {
  switch (ask) {
    case gate::Ask::taken: return ONCE_OK;
    case gate::Ask::ended: return fail(ONCE_ENDED, "this claim was ended before");
    case gate::Ask::stopped: return fail(ONCE_STOPPED, "the gate of this claim was freed");
    case gate::Ask::forked: return fail(ONCE_FORKED, "this claim belongs to the process before the fork");
  }
  return ONCE_OK;
}

once_status stopped() {
  return fail(ONCE_STOPPED, "the gate was stopped");
}

std::unique_ptr<OwnedEvent> event(once_event_kind kind, std::uint64_t tag) {
  return std::make_unique<OwnedEvent>(kind, tag);
}

}  // namespace

struct once_gate {
  Instances instances;
};

struct once_claim {
  std::variant<std::shared_ptr<gate::HeldRequest>, std::shared_ptr<gate::HeldWork>> held;
  std::shared_ptr<EventQueue> queue;
};

namespace {

// Calls `body` with the instance of this process.
template <class F>
once_status with_gate(once_gate* gate, F body) noexcept {
  return entered([&]() -> once_status {
    if (gate == nullptr) return fail(ONCE_INVALID, "the gate is NULL");
    const auto instance = gate->instances.get();
    if (!instance) return fail(status_of(instance.error().kind), instance.error().detail);
    return body(**instance);
  });
}

void push_reply(EventQueue& queue, std::uint64_t tag, gate::Reply reply) {
  auto made = event(ONCE_EVENT_REPLY, tag);
  made->set_reply(std::move(reply));
  queue.push(std::move(made));
}

void push_outcome(EventQueue& queue, std::uint64_t tag, gate::WorkOutcome outcome) {
  auto made = event(ONCE_EVENT_OUTCOME, tag);
  made->set_outcome(std::move(outcome));
  queue.push(std::move(made));
}

template <class Held>
void push_claim(const std::shared_ptr<EventQueue>& queue, std::uint64_t tag, std::shared_ptr<Held> held) {
  auto made = event(ONCE_EVENT_CLAIM, tag);
  gate::ClaimFacts facts = held->facts;
  made->set_claim(new once_claim{.held = std::move(held), .queue = queue}, std::move(facts));
  queue->push(std::move(made));
}

void push_pass(EventQueue& queue, std::uint64_t tag, gate::Pass pass) {
  auto made = event(ONCE_EVENT_PASS, tag);
  made->set_reply({.fields = std::move(pass.fields), .ending = gate::Ending::passed});
  queue.push(std::move(made));
}

// Makes the event for each kind of result.
struct Pusher {
  std::shared_ptr<EventQueue> queue;
  std::uint64_t tag;

  void operator()(const Cancelled&) const { queue->push(event(ONCE_EVENT_CANCELLED, tag)); }
  void operator()(gate::Reply& reply) const { push_reply(*queue, tag, std::move(reply)); }
  void operator()(gate::Pass& pass) const { push_pass(*queue, tag, std::move(pass)); }
  void operator()(gate::WorkOutcome& outcome) const { push_outcome(*queue, tag, std::move(outcome)); }
  void operator()(std::shared_ptr<gate::HeldRequest>& held) const { push_claim(queue, tag, std::move(held)); }
  void operator()(std::shared_ptr<gate::HeldWork>& held) const { push_claim(queue, tag, std::move(held)); }
  void operator()(const std::monostate&) const { queue->push(event(ONCE_EVENT_STOPPED, tag)); }
  void operator()(const std::expected<std::uint64_t, std::string>& swept) const {
    auto made = event(ONCE_EVENT_SWEPT, tag);
    if (swept) {
      made->removed = *swept;
    } else {
      gate::WorkOutcome failed;
      failed.reason = guard::Reason::store_unavailable;
      failed.detail = swept.error();
      made->set_outcome(std::move(failed));
    }
    queue->push(std::move(made));
  }
};

template <class T>
Completion<T> into(const std::shared_ptr<EventQueue>& queue, std::uint64_t tag) {
  return Completion<T>([pusher = Pusher{queue, tag}](T result) { std::visit(pusher, result); });
}

gate::HeldRequest* request_in(once_claim* claim) {
  const auto* const held = std::get_if<std::shared_ptr<gate::HeldRequest>>(&claim->held);
  return held != nullptr ? held->get() : nullptr;
}

gate::HeldWork* work_in(once_claim* claim) {
  const auto* const held = std::get_if<std::shared_ptr<gate::HeldWork>>(&claim->held);
  return held != nullptr ? held->get() : nullptr;
}

once_status end_request(once_claim* claim, std::uint64_t tag,
                        gate::Ask (gate::HeldRequest::*end)(Completion<gate::FinishResult>)) {
  gate::HeldRequest* const held = request_in(claim);
  if (held == nullptr) return fail(ONCE_INVALID, "this is a claim of work, not of a request");
  return status_of((held->*end)(into<gate::FinishResult>(claim->queue, tag)));
}

once_status order_work(once_claim* claim, gate::WorkOrder order, std::uint64_t tag) {
  gate::HeldWork* const held = work_in(claim);
  if (held == nullptr) return fail(ONCE_INVALID, "this is a claim of a request, not of work");
  order.then = into<gate::WorkResult>(claim->queue, tag);
  return status_of(held->order(std::move(order)));
}

template <class F>
once_status with_claim(once_claim* claim, F body) noexcept {
  return entered([&]() -> once_status {
    if (claim == nullptr) return fail(ONCE_INVALID, "the claim is NULL");
    return body();
  });
}

struct OwnedText : once_text {
  explicit OwnedText(std::string text) : once_text(), kept(std::move(text)) {
    data = kept.c_str();
    size = kept.size();
  }
  const std::string kept;
};

once_status give_text(std::string text, once_text** out) {
  *out = new OwnedText(std::move(text));
  return ONCE_OK;
}

void copy_hex(const std::string& hex, char out[65]) {
  std::memcpy(out, hex.c_str(), 65);
}

}  // namespace

const char* once_version(void) {
  return ONCE_VERSION;
}

uint32_t once_abi_version(void) {
  return ONCE_ABI_VERSION;
}

const char* once_status_name(once_status status) {
  switch (status) {
    case ONCE_OK: return "ok";
    case ONCE_INVALID: return "invalid";
    case ONCE_CONFIG: return "config";
    case ONCE_UNAVAILABLE: return "unavailable";
    case ONCE_STOPPED: return "stopped";
    case ONCE_ENDED: return "ended";
    case ONCE_FORKED: return "forked";
    case ONCE_TIMEOUT: return "timeout";
    case ONCE_NO_MEMORY: return "no memory";
    case ONCE_BROKEN: return "broken";
  }
  return "unknown status";
}

once_status once_open(const once_options* options, once_gate** gate) {
  return entered([&]() -> once_status {
    if (gate == nullptr) return fail(ONCE_INVALID, "the pointer for the gate is NULL");
    *gate = nullptr;
    auto given = abi::options_of(options);
    if (!given) return fail(ONCE_INVALID, given.error());
    const bool has_log = options->size >= offsetof(once_options, log) + sizeof options->log;
    const std::uint32_t log = has_log ? options->log : static_cast<std::uint32_t>(ONCE_LOG_EVENTS);
    auto make = [kept = *std::move(given), log] { return open_instance(kept, log); };
    auto first = make();
    if (!first) return fail(status_of(first.error().kind), first.error().detail);
    *gate = new once_gate{{*std::move(first), std::move(make)}};
    return ONCE_OK;
  });
}

once_status once_stop(once_gate* gate, uint64_t tag) {
  return with_gate(gate, [&](Instance& instance) {
    instance.core->stop(into<gate::StopResult>(instance.queue, tag));
    return ONCE_OK;
  });
}

once_status once_free(once_gate* gate, uint32_t timeout_ms) {
  if (gate == nullptr) return ONCE_OK;
  if (abi::is_broken()) return abi::fail_broken();  // its threads have stopped, perhaps with locks held
  return entered([&]() -> once_status {
    const std::shared_ptr<Instance> instance = gate->instances.here();
    delete gate;
    if (!instance) return ONCE_OK;
    instance->core->end();
    const bool ended = instance->core->wait_for_end(std::chrono::milliseconds(timeout_ms));
    instance->queue->close();
    return ended ? ONCE_OK : fail(ONCE_TIMEOUT, "threads of the gate are still ending");
  });
}

once_status once_needs_body(once_gate* gate, const once_request* request, int* needed, uint64_t* max_body) {
  return with_gate(gate, [&](Instance& instance) -> once_status {
    if (needed == nullptr || max_body == nullptr) return fail(ONCE_INVALID, "the pointer for the answer is NULL");
    auto head = abi::request_of(request, false);
    if (!head) return fail(ONCE_INVALID, head.error());
    const auto body = instance.core->needed_body(*std::move(head));
    *needed = body.needed ? 1 : 0;
    *max_body = body.most;
    return ONCE_OK;
  });
}

once_status once_begin(once_gate* gate, const once_request* request, uint64_t tag) {
  return with_gate(gate, [&](Instance& instance) -> once_status {
    auto given = abi::request_of(request, true);
    if (!given) return fail(ONCE_INVALID, given.error());
    const auto begun = instance.core->begin(*std::move(given), tag, into<gate::BeginResult>(instance.queue, tag));
    return begun == gate::Core::Begun::yes ? ONCE_OK : stopped();
  });
}

once_status once_cancel(once_gate* gate, uint64_t tag) {
  return with_gate(gate, [&](Instance& instance) {
    instance.core->cancel(tag);
    return ONCE_OK;
  });
}

once_status once_finish(once_claim* claim, const once_response* response, uint64_t tag) {
  return with_claim(claim, [&]() -> once_status {
    gate::HeldRequest* const held = request_in(claim);
    if (held == nullptr) return fail(ONCE_INVALID, "this is a claim of work: use once_complete()");
    const auto given = abi::response_of(response);
    if (!given) return fail(ONCE_INVALID, given.error());
    auto prepared = gate::prepare(*given);
    if (!prepared) return fail(ONCE_INVALID, prepared.error());
    return status_of(held->finish(*std::move(prepared), into<gate::FinishResult>(claim->queue, tag)));
  });
}

once_status once_abandon(once_claim* claim, uint64_t tag) {
  return with_claim(claim, [&] { return end_request(claim, tag, &gate::HeldRequest::abandon); });
}

once_status once_release(once_claim* claim, uint64_t tag) {
  return with_claim(claim, [&] {
    if (work_in(claim) != nullptr) return order_work(claim, {.kind = gate::WorkOrder::Kind::release}, tag);
    return end_request(claim, tag, &gate::HeldRequest::release);
  });
}

once_status once_claim_lost(const once_claim* claim, int* lost) {
  return entered([&]() -> once_status {
    if (claim == nullptr || lost == nullptr) return fail(ONCE_INVALID, "an argument is NULL");
    if (!std::visit([](const auto& held) { return held->is_here(); }, claim->held)) {
      return status_of(gate::Ask::forked);
    }
    const bool is_lost = std::visit([](const auto& held) { return held->lost->load(); }, claim->held);
    *lost = is_lost ? 1 : 0;
    return ONCE_OK;
  });
}

void once_claim_free(once_claim* claim) {
  if (claim == nullptr) return;
  entered([&] {
    delete claim;
    return ONCE_OK;
  });
}

once_status once_claim_work(once_gate* gate, const once_work* work, uint64_t tag) {
  return with_gate(gate, [&](Instance& instance) -> once_status {
    auto given = abi::work_of(work);
    if (!given) return fail(ONCE_INVALID, given.error());
    const auto begun =
        instance.core->claim_work(*std::move(given), tag, into<gate::ClaimResultOfWork>(instance.queue, tag));
    return begun == gate::Core::Begun::yes ? ONCE_OK : stopped();
  });
}

once_status once_complete(once_claim* claim, once_bytes value, once_bytes media_type, uint64_t tag) {
  return with_claim(claim, [&] {
    gate::WorkOrder order{
        .kind = gate::WorkOrder::Kind::complete, .value = abi::text_of(value), .media_type = abi::text_of(media_type)};
    return order_work(claim, std::move(order), tag);
  });
}

once_status once_fail(once_claim* claim, uint64_t tag) {
  return with_claim(claim, [&] { return order_work(claim, {.kind = gate::WorkOrder::Kind::fail}, tag); });
}

once_status once_recorded(once_claim* claim, uint64_t tag) {
  return with_claim(claim, [&] { return order_work(claim, {.kind = gate::WorkOrder::Kind::recorded}, tag); });
}

once_status once_look(once_gate* gate, const once_work* work, uint64_t tag) {
  return with_gate(gate, [&](Instance& instance) -> once_status {
    auto given = abi::work_of(work);
    if (!given) return fail(ONCE_INVALID, given.error());
    const auto begun = instance.core->look(*std::move(given), tag, into<gate::WorkResult>(instance.queue, tag));
    return begun == gate::Core::Begun::yes ? ONCE_OK : stopped();
  });
}

once_status once_compute_key(once_gate* gate, const once_work* work, char hex[65]) {
  return with_gate(gate, [&](Instance& instance) -> once_status {
    if (hex == nullptr) return fail(ONCE_INVALID, "the pointer for the key is NULL");
    const auto given = abi::work_of(work);
    if (!given) return fail(ONCE_INVALID, given.error());
    const auto operation = instance.core->operation_of(*given);
    if (!operation) return fail(ONCE_INVALID, operation.error());
    copy_hex(*operation, hex);
    return ONCE_OK;
  });
}

once_status once_hash_text(once_bytes text, char hex[65]) {
  return entered([&]() -> once_status {
    if (hex == nullptr) return fail(ONCE_INVALID, "the pointer for the hash is NULL");
    copy_hex(guard::hash_text(abi::text_of(text)), hex);
    return ONCE_OK;
  });
}

int once_poll_fd(once_gate* gate) {
  int descriptor = -1;
  with_gate(gate, [&](Instance& instance) {
    descriptor = instance.queue->descriptor();
    return ONCE_OK;
  });
  return descriptor;
}

once_status once_drain(once_gate* gate, once_event** events, size_t capacity, size_t* count) {
  return with_gate(gate, [&](Instance& instance) -> once_status {
    if (events == nullptr || count == nullptr) return fail(ONCE_INVALID, "the pointer for events is NULL");
    *count = instance.queue->drain(events, capacity);
    return ONCE_OK;
  });
}

uint64_t once_private_tag(once_gate* gate) {
  std::uint64_t tag = 0;
  with_gate(gate, [&](Instance& instance) {
    tag = instance.queue->new_tag();
    return ONCE_OK;
  });
  return tag;
}

once_status once_wait(once_gate* gate, uint64_t tag, uint32_t timeout_ms, once_event** out) {
  return with_gate(gate, [&](Instance& instance) -> once_status {
    if (out == nullptr) return fail(ONCE_INVALID, "the pointer for the event is NULL");
    *out = nullptr;
    if ((tag & ONCE_PRIVATE_TAG) == 0) return fail(ONCE_INVALID, "only private tags can be waited for");
    std::optional<std::chrono::milliseconds> limit;
    if (timeout_ms != UINT32_MAX) limit = std::chrono::milliseconds(timeout_ms);
    auto event = instance.queue->wait(tag, limit);
    if (event) {
      *out = event.release();
      return ONCE_OK;
    }
    if (abi::is_broken()) return abi::fail_broken();
    instance.core->cancel(tag);
    return fail(ONCE_TIMEOUT, "no event within the time limit");
  });
}

void once_event_free(once_event* given) {
  if (given == nullptr) return;
  entered([&] {
    delete static_cast<OwnedEvent*>(given);
    return ONCE_OK;
  });
}

once_status once_sweep(once_gate* gate, uint64_t tag) {
  return with_gate(gate, [&](Instance& instance) {
    const auto begun = instance.core->sweep(into<gate::SweepResult>(instance.queue, tag));
    return begun == gate::Core::Begun::yes ? ONCE_OK : stopped();
  });
}

once_status once_metrics(once_gate* gate, once_text** text) {
  return with_gate(gate, [&](Instance& instance) -> once_status {
    if (text == nullptr) return fail(ONCE_INVALID, "the pointer for the text is NULL");
    return give_text(instance.core->metrics(), text);
  });
}

once_status once_sanitise(once_bytes json, const once_bytes* store_only, size_t store_only_count,
                          const once_bytes* never_store, size_t never_store_count, once_text** text) {
  return entered([&]() -> once_status {
    if (text == nullptr) return fail(ONCE_INVALID, "the pointer for the text is NULL");
    auto only = abi::names_of(store_only, store_only_count);
    auto never = abi::names_of(never_store, never_store_count);
    if (!only || !never) return fail(ONCE_INVALID, "a list of names is NULL");
    auto kept = guard::sanitise(abi::text_of(json), {.store_only = *std::move(only), .never_store = *std::move(never)});
    if (!kept) return fail(ONCE_INVALID, "the value is not valid JSON, or has a name twice in one object");
    return give_text(*std::move(kept), text);
  });
}

void once_text_free(once_text* text) {
  delete static_cast<OwnedText*>(text);
}
