#include "sim/stream_book.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "sim/byte_marks.hpp"

namespace once::sim {

namespace {

constexpr std::string_view offset_field = "Idempotency-Offset";
constexpr std::string_view attempt_field = "Idempotency-Attempt";

std::optional<std::uint64_t> number_in(const Message& message, std::string_view field) {
  const std::string text = message.field(field);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::size_t offset_of(const Message& response) {
  return static_cast<std::size_t>(number_in(response, offset_field).value_or(0));
}

// The number of bytes of the body that the client has after this response.
std::size_t upto(const Message& response) {
  return offset_of(response) + response.body.size();
}

}  // namespace

std::string Resume::fields() const {
  std::string text;
  if (offset) text += fmt::format("Idempotency-Offset: {}\r\n", *offset);
  if (event) text += fmt::format("Last-Event-ID: {}\r\n", *event);
  if (attempt) text += fmt::format("Idempotency-Attempt: {}\r\n", *attempt);
  return text;
}

void StreamBook::begins(unsigned execution, Script script) {
  streams_[execution] = {.script = std::move(script)};
}

const StreamBook::Stream* StreamBook::find(const Message& response) const {
  const auto number = number_in(response, execution_field);
  if (!number) return nullptr;
  const auto found = streams_.find(static_cast<unsigned>(*number));
  return found == streams_.end() ? nullptr : &found->second;
}

StreamBook::Stream* StreamBook::find(const Message& response) {
  return const_cast<Stream*>(std::as_const(*this).find(response));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

void StreamBook::wrong(const Message& response, const std::string& what) {
  history_.violated(fmt::format("a reader of execution {} ({}): {}", response.field(execution_field),
                                response.field("Idempotency-Status"), what));
}

bool StreamBook::is_recorded_stream(const Message& response) const {
  const Stream* stream = find(response);
  if (stream == nullptr || response.status >= 500 || is_refusal(response.status)) return false;
  const std::size_t route = wire_name(stream->script.asked.operation, setup_.routes.size()).route;
  const StreamRecording recording = setup_.bytes.streams.recording[route];
  return recording == StreamRecording::always || (recording == StreamRecording::automatic && stream->script.is_stream);
}

bool StreamBook::is_stopped(const Message& response) {
  return response.field("Idempotency-Stopped") == "true";
}

// Whether a failover may lose bytes that were sent to a reader.
bool StreamBook::may_be_lost() const {
  return setup_.store == StoreKind::redis && (setup_.failovers > 0 || setup_.bytes.streams.losses > 0);
}

// Whether the stream may continue unrecorded: it exceeds the limit, or memory or quota were used up.
bool StreamBook::may_be_unrecorded(const Stream& stream) const {
  const bool large = stream.script.body.size() > setup_.bytes.streams.max_stream;
  const bool disk_may_be_full = setup_.store == StoreKind::journal && setup_.journal.max_disk < std::size_t{1} << 20U;
  const bool over_quota = setup_.bytes.limits.caller.stored_bytes > 0;
  return large || over_quota || setup_.store_is_small() || setup_.bytes.memory_is_short() || disk_may_be_full ||
         setup_.disk_faults > 0;
}

void StreamBook::sent(const Message& response, std::size_t fresh, const Resume& asked_for) {
  Stream* stream = find(response);
  if (stream == nullptr) return;
  if (fresh == 0) check_offset(*stream, response, asked_for);
  ++parts_;
  const std::string_view body = stream->script.body;
  const std::size_t begin = std::min(offset_of(response) + fresh, body.size());
  const std::string_view part = std::string_view(response.body).substr(fresh);
  if (body.substr(begin, part.size()) != part) {
    return wrong(response, fmt::format("got \"{}\" at {}, which is \"{}\"", part.substr(0, 60), begin,
                                       body.substr(begin, std::min<std::size_t>(part.size(), 60))));
  }
  if (part.empty()) return;
  std::size_t& sent_bytes = stream->sent_bytes[number_in(response, attempt_field).value_or(0)];
  sent_bytes = std::max(sent_bytes, begin + part.size());
  if (is_recorded_stream(response) && !may_be_unrecorded(*stream)) {
    check_durable(*stream, static_cast<unsigned>(*number_in(response, execution_field)), begin + part.size());
  }
}

// The offset must follow what the client has, or be the beginning.
void StreamBook::check_offset(const Stream& stream, const Message& response, const Resume& asked_for) {
  const auto offset = number_in(response, offset_field);
  const std::string status = response.field("Idempotency-Status");
  if (offset) {
    ++resumed_;
    const std::size_t size = stream.script.body.size();
    const bool fits_offset =
        asked_for.offset && (*offset == *asked_for.offset || *offset == std::min(*asked_for.offset, size));
    const auto& events = stream.script.events;
    const bool fits_event = !asked_for.offset && asked_for.event && *asked_for.event >= 1 &&
                            *asked_for.event <= events.size() && *offset == events[*asked_for.event - 1];
    if (!fits_offset && !fits_event)
      wrong(response, fmt::format("was resumed at {}, which it did not ask for", *offset));
    return;
  }
  const auto attempt = number_in(response, attempt_field);
  // `unknown` without an attempt may be a response that was just executed and is not provably complete.
  const bool recorded = status == "attached" || status == "replayed" || (status == "unknown" && attempt);
  const bool same = !asked_for.attempt || !attempt || asked_for.attempt == attempt;
  // A replay that does not show its attempt may be of another one than was asked for.
  const bool may_be_another = asked_for.attempt && !attempt;
  if (asked_for.offset.value_or(0) == 0 || !recorded || !same || may_be_another) return;
  wrong(response, fmt::format("was not resumed at {}", *asked_for.offset));
}

void StreamBook::check_durable(const Stream& stream, unsigned execution, std::size_t upto) {
  const std::size_t durable = history_.durable_of(execution);
  if (upto <= durable) return;
  history_.violated(fmt::format("execution {} of operation {}: {} bytes of its stream were sent, {} are durable",
                                execution, stream.script.asked.operation, upto, durable));
}

void StreamBook::sent_end(const Message& response) {
  const Stream* stream = find(response);
  if (stream == nullptr || !is_recorded_stream(response)) return;
  if (is_stopped(response)) return check_stopped(*stream, response);
  if (upto(response) < stream->script.body.size()) {
    wrong(response,
          fmt::format("its response ends in order after {} of {} bytes", upto(response), stream->script.body.size()));
  }
  const auto execution = static_cast<unsigned>(*number_in(response, execution_field));
  if (!history_.has_recorded(execution)) wrong(response, "its response ends in order before it is recorded");
  if (response.field("Idempotency-Status") == "unknown") wrong(response, "ends in order, and was sent as unknown");
  if (history_.stopped(execution)) wrong(response, "its response ends in order, and it was stopped");
}

// A stopped response is the same for all later readers: everything that was recorded, so everything that any reader was
// sent.
void StreamBook::check_stopped(const Stream& stream, const Message& response) {
  ++stopped_replays_;
  const auto stopped = history_.stopped(static_cast<unsigned>(*number_in(response, execution_field)));
  if (may_be_lost()) return;
  if (!stopped || !stopped->bytes) return wrong(response, "is marked as stopped, and is not recorded like that");
  const std::size_t end = std::max(*stopped->bytes, offset_of(response));
  if (upto(response) != end) {
    wrong(response, fmt::format("ends after {} bytes, and was stopped after {}", upto(response), *stopped->bytes));
  }
  if (stopped->handed || may_be_unrecorded(stream)) return;
  for (const auto& [attempt, bytes] : stream.sent_bytes) {
    if (bytes <= *stopped->bytes) continue;
    wrong(response, fmt::format("was stopped after {} bytes, and {} had been sent", *stopped->bytes, bytes));
  }
}

std::optional<bool> StreamBook::is_whole(const Message& response) const {
  const Stream* stream = find(response);
  if (stream == nullptr) return std::nullopt;
  return is_stopped(response) || upto(response) >= stream->script.body.size();
}

std::string StreamBook::with_beginning(const Message& response) const {
  const Stream* stream = find(response);
  if (stream == nullptr) return response.body;
  if (is_stopped(response)) {
    const std::string number = response.field(execution_field);
    const auto stopped = history_.stopped(static_cast<unsigned>(*number_in(response, execution_field)));
    const std::size_t most = stopped ? stopped->bytes.value_or(0) : offset_of(response);
    return fmt::format("stopped execution={} ", number) +
           stream->script.body.substr(0, std::min(offset_of(response), most)) + response.body;
  }
  return stream->script.body.substr(0, offset_of(response)) + response.body;
}

std::optional<Asked> StreamBook::asked_of(const Message& response) const {
  const Stream* stream = find(response);
  return stream == nullptr ? std::nullopt : std::optional(stream->script.asked);
}

void StreamBook::seen(const Asked& asked, const Message& response) {
  const auto execution = number_in(response, execution_field);
  if (!execution) {
    has_.erase({asked.operation, asked.caller});
    return;
  }
  has_[{asked.operation, asked.caller}] = {.execution = static_cast<unsigned>(*execution),
                                           .bytes = upto(response),
                                           .attempt = number_in(response, attempt_field)};
}

Resume StreamBook::draw_resume(const Asked& asked, Draw& draw) const {
  Resume resume;
  const auto found = has_.find({asked.operation, asked.caller});
  const Has has = found == has_.end() ? Has() : found->second;
  const auto stream = streams_.find(has.execution);
  if (found == has_.end() || stream == streams_.end()) return resume;
  if (draw.one_in(3)) {
    const auto& events = stream->second.script.events;
    const auto behind = std::ranges::upper_bound(events, has.bytes);
    resume.event = static_cast<unsigned>(behind - events.begin());
    // Sometimes ask for an event that does not exist yet, or never will.
    if (draw.one_in(8)) resume.event = *resume.event + 1;
  } else {
    resume.offset = draw.one_in(6) ? draw.below(has.bytes + 100) : has.bytes;
  }
  if (draw.one_in(3)) resume.attempt = has.attempt;
  return resume;
}

void StreamBook::check_final(const Asked& asked) {
  const auto has = has_.find({asked.operation, asked.caller});
  if (has == has_.end()) return;
  const auto found = streams_.find(has->second.execution);
  if (found == streams_.end() || may_be_unrecorded(found->second)) return;
  ++cut_off_;
  // A failover may have lost chunks that a client has received.
  if (setup_.store == StoreKind::redis) return;
  const auto last = found->second.sent_bytes.find(has->second.attempt.value_or(0));
  if (last == found->second.sent_bytes.end() || has->second.bytes >= last->second) return;
  history_.violated(fmt::format("execution {} of operation {}: {} bytes of its stream were sent, {} are left",
                                has->second.execution, asked.operation, last->second, has->second.bytes));
}

}  // namespace once::sim
