#include "client/operation.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "client/error_body.hpp"
#include "client/key_file.hpp"
#include "client/policy.hpp"
#include "client/retry_after.hpp"
#include "client/stream_body.hpp"
#include "client/uuid.hpp"

namespace once::client {

namespace {

class Operation {
 public:
  Operation(const Asked& asked, const Ports& ports)
      : options_(asked.options),
        request_(asked.request),
        watcher_(asked.watcher),
        stop_(asked.stop),
        body_(asked.body),
        ports_(ports),
        key_file_(options_.key_file) {}

  Result run() {
    if (!prepare()) return std::move(result_);
    began_ = ports_.timeline.now();
    while (!stop_.stop_requested()) {
      // The wait may have taken longer than requested.
      const Duration left = std::max(time_left(), Duration(1));
      const std::optional<Duration> retry_after = one_try(left);
      const Next next = next_step(options_, {.happened = result_.happened,
                                             .tries = tries_in_vain_,
                                             .retry_after = retry_after,
                                             .left = time_left(),
                                             .chance = chance()});
      report(next);
      if (next.verdict != Verdict::again) return ended(next.verdict, retry_after);
      ports_.timeline.wait(next.wait, stop_);
    }
    return cancelled();
  }

 private:
  Duration time_left() const { return options_.deadline - (ports_.timeline.now() - began_); }

  bool prepare() {
    result_.detail = mistake_in(options_, request_);
    if (result_.detail.empty()) result_.detail = ports_.transport.refusal(request_);
    if (!result_.detail.empty()) {
      result_.stop_reason = StopReason::bad_request;
      return false;
    }
    const Time now = ports_.clock.now();
    const bool given = !request_.key.empty();
    record_ = {.key = given ? request_.key : make_key(options_.key_form, now, ports_.random),
               .request = request_digest(request_),
               .created = now};
    origin_ = given ? KeyOrigin::given : KeyOrigin::made;
    if (!options_.key_file.empty() && !open_key_file(now)) {
      result_.stop_reason = StopReason::key_file;
      return false;
    }
    result_.key = record_.key;
    if (watcher_.on_key) watcher_.on_key(record_.key, origin_);
    return true;
  }

  bool open_key_file(Time now) {
    auto found = key_file_.open(record_);
    if (!found) {
      result_.detail = std::move(found.error());
      return false;
    }
    if (*found == record_) return true;
    result_.key = found->key;
    if (found->request != record_.request) {
      result_.detail = fmt::format("{} belongs to another request; one file is for one operation", options_.key_file);
    } else if (!request_.key.empty() && found->key != request_.key) {
      result_.detail = fmt::format("{} has another key than the one given", options_.key_file);
    } else if (options_.key_file_lifetime > Duration::zero() && now - found->created > options_.key_file_lifetime) {
      result_.detail = fmt::format(
          "the key in {} is older than {}: the server may have dropped it, and would execute again. Find out whether "
          "the request was executed; a new operation needs another file",
          options_.key_file, format_duration(options_.key_file_lifetime));
    } else {
      record_ = std::move(*found);
      origin_ = KeyOrigin::resumed;
      perhaps_sent_ = true;  // by an earlier process, which made the key
      return true;
    }
    return false;
  }

  // Runs one try and returns the answer's Retry-After.
  std::optional<Duration> one_try(Duration left) {
    ++result_.tries;
    ++tries_in_vain_;
    sent_before_ = perhaps_sent_;
    std::vector<Header> headers = body_ != nullptr ? body_->resuming(request_.headers) : request_.headers;
    headers.push_back({.name = options_.key_header, .value = record_.key});
    if (body_ != nullptr) body_->begin_try();
    Tried tried = ports_.transport.perform({.request = request_,
                                            .headers = headers,
                                            .options = options_,
                                            .timeout = std::min(options_.try_timeout, left),
                                            .receiver = body_},
                                           stop_);
    result_.happened = tried.happened;
    result_.detail = std::move(tried.detail);
    result_.answer.reset();
    judge_part(tried);
    std::optional<Duration> retry_after;
    if (result_.happened == Happened::success) {
      retry_after = parse_retry_after(tried.answer.header("Retry-After"), ports_.clock.now());
      result_.happened = classify_answer(tried.answer, retry_after);
    }
    if (tried.answer.status != 0) result_.answer = std::move(tried.answer);
    if (row_of(result_.happened).sent != Sent::nothing) perhaps_sent_ = true;
    return retry_after;
  }

  // Handles a response that was incomplete, or was given to the caller as it arrived.
  void judge_part(const Tried& tried) {
    const bool cut_off = tried.cut_off && tried.happened != Happened::cancelled;
    // Only a part was recorded, so no retry gets more.
    if (cut_off && tried.cut_off->header("Idempotency-Status") == "unknown") result_.happened = Happened::broken_off;
    if (body_ == nullptr) return;
    result_.happened = body_->judge(result_.happened);
    if (result_.happened == Happened::new_attempt) result_.detail = body_->why();
    if (!body_->take_progress(result_.happened)) return;
    began_ = ports_.timeline.now();
    tries_in_vain_ = 1;
  }

  static Happened classify_answer(Answer& answer, std::optional<Duration> retry_after) {
    const std::string_view status = answer.header("Idempotency-Status");
    if (status == "replayed" || iequals(answer.header("Idempotency-Replayed"), "true") ||
        iequals(answer.header("Idempotent-Replayed"), "true")) {
      answer.replayed = Replayed::yes;
    } else if (status == "executed") {
      answer.replayed = Replayed::no;
    }
    const ErrorBody error = answer.status >= 400 ? read_error_body(answer.body) : ErrorBody{};
    return classify({.status = answer.status,
                     .idempotency_status = status,
                     .problem_code = error.code,
                     .says = error.says,
                     .retry_after = retry_after});
  }

  std::uint64_t chance() {
    std::array<std::uint8_t, sizeof(std::uint64_t)> bytes{};
    ports_.random.fill(bytes);
    std::uint64_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    return number;
  }

  void report(const Next& next) const {
    if (!watcher_.on_try) return;
    watcher_.on_try({.number = result_.tries,
                     .happened = result_.happened,
                     .status = result_.answer ? result_.answer->status : 0,
                     .detail = result_.detail,
                     .next_after = next.verdict == Verdict::again ? std::optional(next.wait) : std::nullopt});
  }

  Result ended(Verdict verdict, std::optional<Duration> retry_after) {
    if (result_.happened == Happened::cancelled) return cancelled();
    result_.work = perhaps_sent_ ? Work::unknown : Work::not_sent;
    switch (verdict) {
      case Verdict::again: break;  // not an end
      case Verdict::done: conclude(); break;
      case Verdict::retries_spent:
        result_.stop_reason = StopReason::retries_spent;
        explain(fmt::format("gave up after {} {}", result_.tries, result_.tries == 1 ? "try" : "tries"));
        break;
      case Verdict::deadline:
        result_.stop_reason = StopReason::deadline;
        explain(retry_after ? fmt::format("the server asks for a wait of {}, which is past the deadline",
                                          format_duration(*retry_after))
                            : fmt::format("the deadline of {} has passed", format_duration(options_.deadline)));
        break;
    }
    return std::move(result_);
  }

  void explain(std::string why) {
    result_.detail = result_.detail.empty() ? std::move(why) : fmt::format("{}; {}", result_.detail, why);
  }

  void conclude() {
    result_.stop_reason = result_.answer && result_.happened != Happened::answer_too_large ? StopReason::answered
                                                                                           : StopReason::not_retried;
    if (row_of(result_.happened).sent != Sent::answered) return;
    // A refusal by a proxy in between says nothing about an earlier try that may have been executed.
    const bool of_this_operation =
        result_.answer->replayed != Replayed::unsaid || (result_.answer->status >= 200 && result_.answer->status < 300);
    if (sent_before_ && !of_this_operation) return;
    result_.work = Work::answered;
    // After a 5xx the work may be half done: keep the key for the next try.
    if (options_.key_file.empty() || result_.answer->status >= 500) return;
    const auto closed = options_.key_file_end == KeyFileEnd::remove ? key_file_.remove() : key_file_.mark_done(record_);
    if (!closed) explain(closed.error());
  }

  Result cancelled() {
    result_.stop_reason = StopReason::cancelled;
    result_.work = perhaps_sent_ ? Work::unknown : Work::not_sent;
    return std::move(result_);
  }

  const Options& options_;
  const Request& request_;
  const Watcher& watcher_;
  const std::stop_token& stop_;
  StreamBody* body_;
  Ports ports_;
  KeyFile key_file_;
  KeyRecord record_;
  KeyOrigin origin_ = KeyOrigin::made;
  Duration began_{};            // the start of the deadline
  unsigned tries_in_vain_ = 0;  // since `began_`
  bool perhaps_sent_ = false;
  bool sent_before_ = false;  // before the last try
  Result result_;
};

}  // namespace

Result run_operation(const Asked& asked, const Ports& ports) {
  return Operation(asked, ports).run();
}

}  // namespace once::client
