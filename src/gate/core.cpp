#include "gate/core.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <thread>
#include <utility>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "base/signals.hpp"
#include "gate/http_call.hpp"
#include "gate/request_head.hpp"
#include "gate/work_call.hpp"
#include "gateway/identity/identify.hpp"
#include "guard/caught.hpp"

namespace once::gate {

// The state that open() waits for.
struct Core::Opening {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::expected<void, OpenError> result;

  void complete(std::expected<void, OpenError> what) {
    const std::scoped_lock lock(mutex);
    result = std::move(what);
    done = true;
    changed.notify_one();  // with the mutex held: once it is free, this may be destroyed
  }
};

namespace {

OpenError cannot_open(const std::string& what) {
  return {.kind = OpenError::Kind::system, .detail = "cannot open the gate: " + what};
}

}  // namespace

Core::Core() : process_(::getpid()) {}

bool Core::is_here() const {
  return process_ == ::getpid();
}

std::expected<std::shared_ptr<Core>, OpenError> Core::open(const Options& options, LogTarget log) {
  auto core = std::make_shared<Core>();
  Opening opening;
  const auto start_thread = [&] {
    const SignalsBlocked blocked;
    std::thread([core, &options, &opening, target = std::move(log)]() mutable {
      run_thread(*core, options, std::move(target), opening);
      core.reset();
    }).detach();
  };
  std::string what;
  if (guard::caught(start_thread, what) == guard::Ended::threw) return std::unexpected(cannot_open(what));
  std::unique_lock lock(opening.mutex);
  opening.changed.wait(lock, [&opening] { return opening.done; });
  if (!opening.result) return std::unexpected(std::move(opening.result.error()));
  return core;
}

// An exception leaves the loop's state in doubt, and the host program must not end: treat it like a broken invariant.
void Core::run_thread(Core& core, const Options& options, LogTarget log, Opening& opening) {
  std::string what;
  const auto run = [&] { core.run(options, std::move(log), opening); };
  if (guard::caught(run, what) == guard::Ended::well) return;
  std::array<char, 256> text{};  // memory may be exhausted
  std::snprintf(text.data(), text.size(), "a gate's thread does not throw: %s", what.c_str());
  assertion_failed(text.data(), __FILE__, __LINE__);
}

void Core::run(const Options& options, LogTarget log, Opening& opening) {
  thread_.store(std::this_thread::get_id());
  std::expected<std::unique_ptr<Engine>, OpenError> engine = nullptr;
  guard::Thrown thrown;
  const auto opened = guard::caught([&] { engine = Engine::open(options, std::move(log)); }, thrown);
  if (opened == guard::Ended::threw) {
    engine = std::unexpected(cannot_open(thrown.what));
  }
  if (engine) {
    engine_ = *std::move(engine);
    mailbox_.open(engine_->loop());
    opening.complete({});
    engine_->run(*this);
    stopping_.store(true);
    mailbox_.close();
    engine_.reset();
  } else {
    opening.complete(std::unexpected(std::move(engine.error())));
  }
  const std::scoped_lock lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

template <class T>
bool Core::is_open_to(Completion<T>& then) {
  const bool open = !stopping_.load();
  if (!open) then.dismiss();
  return open;
}

// If the gate ends now, the call is reported as cancelled.
void Core::start(std::move_only_function<std::unique_ptr<Call>(Engine&)> make) {
  mailbox_.post([this, made = std::move(make)]() mutable { engine_->start(made(*engine_)); });
}

Core::Begun Core::begin(Request request, std::uint64_t tag, Completion<BeginResult> then) {
  if (!is_open_to(then)) return Begun::stopping;
  start([tag, asked = std::move(request), done = std::move(then)](Engine& engine) mutable {
    return std::make_unique<HttpCall>(engine, std::move(asked), tag, std::move(done));
  });
  return Begun::yes;
}

Core::Begun Core::claim_work(guard::Request request, std::uint64_t tag, Completion<ClaimResultOfWork> then) {
  if (!is_open_to(then)) return Begun::stopping;
  start([tag, asked = std::move(request), done = std::move(then)](Engine& engine) mutable {
    return std::make_unique<WorkCall>(engine, std::move(asked), tag, std::move(done));
  });
  return Begun::yes;
}

Core::Begun Core::look(guard::Request request, std::uint64_t tag, Completion<WorkResult> then) {
  if (!is_open_to(then)) return Begun::stopping;
  start([tag, asked = std::move(request), done = std::move(then)](Engine& engine) mutable {
    return std::make_unique<LookCall>(engine, std::move(asked), tag, std::move(done));
  });
  return Begun::yes;
}

Core::Begun Core::sweep(Completion<SweepResult> then) {
  if (!is_open_to(then)) return Begun::stopping;
  mailbox_.post([this, done = std::move(then)]() mutable { engine_->sweep(std::move(done)); });
  return Begun::yes;
}

void Core::cancel(std::uint64_t tag) {
  mailbox_.post([this, tag] { engine_->cancel(tag); });
}

void Core::stop(Completion<StopResult> then) {
  stopping_.store(true);
  mailbox_.post([this, done = std::move(then)]() mutable { engine_->stop(std::move(done)); });
}

void Core::end() {
  stopping_.store(true);
  mailbox_.post([this] { engine_->stop_now(); });
}

bool Core::wait_for_end(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return ended_; });
}

Core::NeededBody Core::needed_body(Request head) const {
  RequestText text(std::move(head));
  const ServingSettings& serving = engine_->serving();
  if (text.parse(serving.limits)) return {};
  Origin origin(text.peer(), text.is_secure() ? Origin::Transport::tls : Origin::Transport::plain);
  origin.trust(serving.trusted_proxies);
  const IdentityRules rules{.settings = serving,
                            .routes = engine_->routes(),
                            .ids = engine_->ids(),
                            .tokens = nullptr,
                            .clock = engine_->clock()};
  const RequestFacts facts{.head = text.head,
                           .peer = text.peer(),
                           .trust = origin.peer(),
                           .transport = text.is_secure() ? Origin::Transport::tls : Origin::Transport::plain,
                           .fields_joined = text.are_fields_joined()};
  std::string scratch;
  const RoutedRequest routed = route_request(rules, facts, scratch);
  if (routed.refused) return {};
  const RequestKey key = find_request_key(routed.route.policy, text.head);
  const bool keyed = key.kind == RequestKey::Kind::given || key.kind == RequestKey::Kind::derived;
  return {.needed = keyed, .most = keyed ? routed.route.policy->max_request_body : 0};
}

std::expected<std::string, std::string> Core::operation_of(const guard::Request& request) const {
  const auto op = engine_->operations().read(request);
  if (!op) return std::unexpected(op.error());
  return to_hex(op->id);
}

}  // namespace once::gate
