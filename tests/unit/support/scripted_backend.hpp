// A backend that does what a test says: answers at once, after some time, when told, or not at all. Every request
// leaves a line in the trace when it arrives ("send: attempt 1").
#pragma once

#include <algorithm>
#include <coroutine>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "gateway/exchange/backend.hpp"
#include "tests/unit/support/faulty_store.hpp"
#include "tests/unit/support/virtual_time.hpp"

namespace once::support {

// What becomes of one request at the backend.
struct BackendScript {
  Delivery delivery = Delivery::whole;
  std::string head = "HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\n";
  std::string body = "done";           // oversize: the first part of it
  std::vector<std::string> rest = {};  // oversize, streaming: what still comes
  Duration each{};                     // of what still comes: how long each part takes, and the end
  http::BodyChunk::Kind ends_with = http::BodyChunk::Kind::end;
  Duration takes{};                           // Duration::max(): until answer() is called
  int begun_status = 0;                       // of a response that broke off in its body
  std::function<void()> when_gone = nullptr;  // the response has ended, or was cut off
};

inline BackendScript answer_with(int status, std::string body = "done", std::string fields = "") {
  BackendScript script;
  script.head = "HTTP/1.1 " + std::to_string(status) + " Reason\r\n" + fields +
                "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  script.body = std::move(body);
  return script;
}

inline BackendScript fails_with(Delivery delivery) {
  BackendScript script;
  script.delivery = delivery;
  return script;
}

// An event stream of these parts.
inline BackendScript streams(std::vector<std::string> parts, Duration each = {}) {
  BackendScript script;
  script.delivery = Delivery::streaming;
  script.head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
  script.body.clear();
  script.rest = std::move(parts);
  script.each = each;
  return script;
}

inline BackendScript breaks_off(Delivery delivery, int status) {
  BackendScript script = fails_with(delivery);
  script.begun_status = status;
  return script;
}

inline BackendScript after(Duration takes, BackendScript script) {
  script.takes = takes;
  return script;
}

inline BackendScript ending_with(http::BodyChunk::Kind end, BackendScript script) {
  script.ends_with = end;
  return script;
}

inline constexpr Duration until_told = Duration::max();

// A response with bytes of its own, gone when the exchange lets go of it: a view kept too long is found by ASan.
class ScriptedResponse final : public http::ResponseSource {
 public:
  ScriptedResponse(BackendScript script, VirtualExecutor& executor) : script_(std::move(script)), executor_(executor) {
    const auto result = http::parse(script_.head, http::HeadLimits(), Method::post, head_);
    ONCE_ASSERT(result.parsed == http::Parsed::complete);
  }

  Task<http::BodyChunk> next(Duration limit) override {
    using Kind = http::BodyChunk::Kind;
    const Duration wait = std::min(script_.each - waited_, limit);
    if (wait > Duration::zero()) co_await sleep_for(executor_, wait);
    waited_ += wait;
    if (waited_ < script_.each) co_return http::BodyChunk{.kind = Kind::timed_out, .data = {}};
    waited_ = Duration::zero();
    if (next_ == script_.rest.size()) co_return http::BodyChunk{.kind = script_.ends_with, .data = {}};
    co_return http::BodyChunk{.kind = Kind::data, .data = script_.rest[next_++]};
  }
  void done() override {
    if (script_.when_gone) script_.when_gone();
    delete this;
  }

  BackendAnswer as_answer() {
    return {
        .delivery = script_.delivery, .head = &head_, .body = script_.body, .source = http::ResponseSourcePtr(this)};
  }

 private:
  BackendScript script_;
  VirtualExecutor& executor_;
  http::ResponseHead head_;
  std::size_t next_ = 0;
  Duration waited_{};  // for the next part
};

class ScriptedBackend final : public Backend {
 public:
  ScriptedBackend(VirtualExecutor& executor, Trace& trace) : executor_(executor), trace_(trace) {}

  // Used up in order; after the last, every request gets `otherwise`.
  void then(BackendScript script) { scripts_.push_back(std::move(script)); }
  BackendScript otherwise;

  struct Seen {
    Fields added_fields;
    std::string body;

    // The value of one of the fields that Once added.
    std::string field(std::string_view name) const { return std::string(added_fields.find(name).value_or("")); }
  };
  const std::vector<Seen>& seen() const { return seen_; }
  std::size_t executions() const { return seen_.size(); }

  std::size_t at_work() const { return at_work_; }
  std::size_t most_at_work() const { return most_at_work_; }

  // Requests that wait to be told, oldest first.
  std::size_t untold() const { return untold_.size(); }
  void answer(std::size_t which, BackendScript script) {
    auto at = untold_.begin();
    std::advance(at, which);
    Untold& untold = **at;
    untold_.erase(at);
    untold.script = std::move(script);
    executor_.post(untold);
  }

  // How long requests wait for a connection.
  Duration connects_in{};

  Task<BackendAnswer> send(const BackendRequest& request) override {
    if (connects_in > Duration::zero()) co_await sleep_for(executor_, connects_in);
    if (request.permit != nullptr && !request.permit->may_send()) co_return BackendAnswer();
    Fields added;
    added.add(request.added_fields);
    seen_.push_back({std::move(added), std::string(request.body)});
    const std::string attempt = seen_.back().field("Idempotency-Attempt");
    trace_.push_back("send: attempt " + (attempt.empty() ? "-" : attempt));
    if (on_send) on_send(seen_.back());
    BackendScript script = otherwise;
    if (!scripts_.empty()) {
      script = std::move(scripts_.front());
      scripts_.pop_front();
    }
    most_at_work_ = std::max(most_at_work_, ++at_work_);
    if (script.takes == until_told) {
      Untold untold(*this);
      co_await untold;
      script = std::move(untold.script);
    } else {
      co_await sleep_for(executor_, script.takes);
    }
    --at_work_;
    if (!is_answered(script.delivery))
      co_return BackendAnswer{
          .delivery = script.delivery, .head = nullptr, .begun_status = script.begun_status, .body = {}, .source = {}};
    auto* response = new ScriptedResponse(std::move(script), executor_);
    co_return response->as_answer();
  }

  std::function<void(const Seen&)> on_send;

 private:
  struct Untold : Work {
    explicit Untold(ScriptedBackend& at_backend) : backend(at_backend) {
      run = [](Work& work) { static_cast<Untold&>(work).caller.resume(); };
    }
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> the_caller) {
      caller = the_caller;
      backend.untold_.push_back(this);
    }
    void await_resume() const noexcept {}

    ScriptedBackend& backend;
    BackendScript script;
    std::coroutine_handle<> caller;
  };

  VirtualExecutor& executor_;
  Trace& trace_;
  std::deque<BackendScript> scripts_;
  std::vector<Seen> seen_;
  std::list<Untold*> untold_;
  std::size_t at_work_ = 0;
  std::size_t most_at_work_ = 0;
};

}  // namespace once::support
