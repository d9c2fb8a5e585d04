#include "sim/backend.hpp"

#include <algorithm>
#include <charconv>
#include <memory>

#include <fmt/format.h>

#include "base/assert.hpp"

namespace once::sim {

namespace {

using namespace std::chrono_literals;

constexpr Duration slowest_connect = 40s;

template <class Blob>
Blob blob_of(std::string_view hex) {
  const auto bytes = from_hex(hex);
  ONCE_ASSERT(bytes && bytes->size() == Blob::size);
  Blob blob;
  std::ranges::copy(*bytes, blob.bytes.begin());
  return blob;
}

// A response that owns its bytes; it lives until the exchange releases it.
class SimResponse final : public http::ResponseSource {
 public:
  SimResponse(int status, std::string body) : body_(std::move(body)) {
    head_text_ = fmt::format("HTTP/1.1 {} Status\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n", status,
                             body_.size());
    const auto parsed = http::parse(head_text_, http::HeadLimits(), Method::post, head_);
    ONCE_ASSERT(parsed.parsed == http::Parsed::complete);
  }

  Task<http::BodyChunk> next(Duration) override {
    co_return http::BodyChunk{.kind = http::BodyChunk::Kind::end, .data = {}};
  }
  void done() override { delete this; }

  BackendAnswer as_answer(std::size_t max_body) {
    const bool whole = body_.size() <= max_body;
    return {.delivery = whole ? Delivery::whole : Delivery::oversize,
            .head = &head_,
            .body = whole ? std::string_view(body_) : std::string_view(body_).substr(0, max_body),
            .source = http::ResponseSourcePtr(this)};
  }

 private:
  std::string head_text_;
  std::string body_;
  http::ResponseHead head_;
};

}  // namespace

class SimBackend::Sending : public Work {
 public:
  Sending(SimBackend& backend, const BackendRequest& request) : backend_(backend), request_(request) {
    run = [](Work& work) { static_cast<Sending&>(work).caller_.resume(); };
  }

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> caller) {
    caller_ = caller;
    backend_.begin(*this);
  }
  BackendAnswer await_resume() {
    if (delivery != Delivery::whole) return {.delivery = delivery};
    return (new SimResponse(status, body))->as_answer(request_.max_response_body);
  }

  const BackendRequest& request() const { return request_; }
  Asked asked() const {
    const auto parsed = parse_request(request_.head.find("Authorization").value_or(""), request_.body);
    ONCE_ASSERT(parsed.has_value());
    return *parsed;
  }

  Delivery delivery = Delivery::lost;
  int status = 0;
  std::string body;
  Nonce nonce{};

 private:
  SimBackend& backend_;
  const BackendRequest& request_;
  std::coroutine_handle<> caller_;
};

Task<BackendAnswer> SimBackend::send(const BackendRequest& request) {
  if (!healed_ && world_.draw.percent(setup_.connects_slowly)) {
    co_await sleep_for(home_, world_.draw.between(1ms, slowest_connect));
  }
  if (request.permit != nullptr && !request.permit->may_send()) co_return BackendAnswer();
  Sending sending(*this, request);
  BackendAnswer answer = co_await sending;
  co_return answer;
}

SimBackend::Plan SimBackend::draw_plan() {
  Draw& draw = world_.draw;
  if (healed_) return Plan::answers;
  if (draw.percent(setup_.backend_refuses)) return Plan::refuses;
  if (draw.percent(setup_.backend_fails)) return Plan::fails;
  if (draw.percent(setup_.backend_dies_before)) return Plan::dies_before;
  if (draw.percent(setup_.backend_dies_after)) return Plan::dies_after;
  if (draw.percent(setup_.backend_truncates)) return Plan::truncates;
  if (draw.percent(setup_.backend_hangs)) return Plan::hangs;
  return Plan::answers;
}

void SimBackend::begin(Sending& sending) {
  if (cut_off_) return home_.post(sending);
  Request request{.number = ++sent_, .asked = sending.asked()};
  sending_[request.number] = &sending;
  const FieldsView fields = sending.request().added_fields;
  const std::string_view claim = fields.find("Idempotency-Claim").value_or("");
  request.id = blob_of<OperationId>(claim.substr(0, claim.find('.')));
  request.nonce = blob_of<Nonce>(claim.substr(claim.find('.') + 1));
  const std::string_view digits = fields.find("Idempotency-Fence").value_or("");
  std::from_chars(digits.data(), digits.data() + digits.size(), request.fence);
  sending.nonce = request.nonce;
  history_.goes_to_backend(request.id, request.nonce, home_, history_.moment());
  const Plan plan = draw_plan();
  const Duration way = world_.draw.between(0ms, 20ms);
  if (plan == Plan::refuses) {
    return world_.after(way, [this, request] { end(request, {.delivery = Delivery::not_sent}); });
  }
  world_.after(way + sending.request().timeouts.response,
               [this, request] { end(request, {.delivery = Delivery::timed_out}); });
  world_.after(way, [this, request, plan] { arrive(request, plan); });
}

void SimBackend::arrive(Request request, Plan plan) {
  // If the gateway has died, the request may not have reached the kernel before.
  if (cut_off_ && world_.draw.one_in(2)) return;
  request.execution = history_.executed(request.asked, request.nonce, request.fence);
  if (database_ != nullptr && plan == Plan::fails && world_.draw.one_in(2)) return fail(request);
  const bool invalid = plan == Plan::answers && world_.draw.one_in(10);
  if (database_ != nullptr && plan != Plan::fails && !invalid) return work(request, plan);
  const Duration takes = world_.draw.between(0ms, healed_ ? 20ms : setup_.backend_takes);
  const auto ends = [&](Delivery delivery, int status = 0) {
    world_.after(takes, [this, request, delivery, status] { end(request, {.delivery = delivery, .status = status}); });
  };
  switch (plan) {
    case Plan::refuses:
    case Plan::hangs: return;
    case Plan::fails: return ends(Delivery::whole, world_.draw.one_of({500, 503, 429, 408, 425}));
    case Plan::dies_before:
    case Plan::dies_after: return ends(Delivery::lost);
    case Plan::truncates: return ends(Delivery::truncated);
    case Plan::answers: return ends(Delivery::whole, invalid ? 400 : 201);
  }
}

void SimBackend::end(const Request& request, const Response& response) {
  const auto at = sending_.find(request.number);
  if (at == sending_.end()) return;  // it timed out before, or the gateway is gone
  Sending& sending = *at->second;
  sending_.erase(at);
  history_.back_from_backend(sending.nonce);
  sending.delivery = response.delivery;
  sending.status = response.status;
  if (response.delivery == Delivery::whole) {
    sending.body = fmt::format("{} execution={}{}", body_of(request.asked), request.execution, response.mark);
    history_.response_received(request.execution, response.status);
  }
  home_.post(sending);
}

void SimBackend::cut_off() {
  cut_off_ = true;
  for (const auto& [number, sending] : sending_) {
    sending->delivery = Delivery::lost;
    history_.back_from_backend(sending->nonce);
    home_.post(*sending);
  }
  sending_.clear();
}

}  // namespace once::sim
