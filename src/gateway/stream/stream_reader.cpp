#include "gateway/stream/stream_reader.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "core/outcome.hpp"
#include "store/claim_steps.hpp"

namespace once::gateway {

namespace {

using http::BodyChunk;

// A reader that waits looks at its stream at least this often.
constexpr Duration longest_pause = std::chrono::seconds(1);
// Appends of another gateway are not announced: how often a reader that follows one asks the store.
constexpr Duration first_look = std::chrono::milliseconds(20);
constexpr Duration slowest_look = std::chrono::milliseconds(250);
constexpr std::size_t bytes_per_read = std::size_t{256} << 10U;

constexpr BodyChunk ended{.kind = BodyChunk::Kind::end, .data = {}};
constexpr BodyChunk cut_off{.kind = BodyChunk::Kind::broken, .data = {}};

// Gives each chunk without what the client has already.
class Skipping {
 public:
  explicit Skipping(std::uint64_t bytes) : left_(bytes) {}

  std::string_view rest_of(std::string_view chunk) {
    const auto skipped = static_cast<std::size_t>(std::min<std::uint64_t>(left_, chunk.size()));
    left_ -= skipped;
    return chunk.substr(skipped);
  }

 private:
  std::uint64_t left_;
};

class LiveReader final : public http::ResponseSource {
 public:
  LiveReader(std::shared_ptr<LiveStream> stream, Waiters& readers, const StreamReaderPorts& ports, const ReadFrom& from)
      : place_(std::move(stream)), readers_(readers), ports_(ports), skipping_(from.skip), length_(from.length) {}

  // The owner ends a stream that is silent for too long, so there is no limit here.
  Task<BodyChunk> next(Duration /*limit*/) override {
    while (true) {
      const LiveStream::Look look = place_.look();
      if (look.chunk != nullptr) {
        place_.advance();
        held_ = look.chunk;
        passed_ += held_->size();
        const std::string_view data = without_end(skipping_.rest_of(*held_));
        if (!data.empty()) co_return BodyChunk{.kind = BodyChunk::Kind::data, .data = data};
        continue;
      }
      if (look.state == StreamState::whole && !end_.empty()) {
        const std::string_view data = std::exchange(end_, {});
        co_return BodyChunk{.kind = BodyChunk::Kind::data, .data = data};
      }
      if (look.state == StreamState::whole) co_return ended;
      if (look.state == StreamState::cut) co_return cut_off;
      const bool here = co_await wait_for_more();
      if (!here) co_return cut_off;
    }
  }

  void done() override { delete this; }

 private:
  // With a length in the head the last byte is the end, which is told when the whole response is recorded.
  std::string_view without_end(std::string_view data) {
    if (passed_ != length_ || data.empty()) return data;
    end_ = data.substr(data.size() - 1);
    return data.substr(0, data.size() - 1);
  }

  // False: the client has left.
  Task<bool> wait_for_more() {
    Waiters::Ticket ticket(readers_, place_.stream().id(), ports_.home);
    const LiveStream::Look look = place_.look();
    if (look.chunk != nullptr || look.state != StreamState::open) co_return true;
    const Departure departure(ports_.presence, ticket);
    if (departure.left()) co_return false;
    co_await ticket.wait(longest_pause);
    co_return !departure.left();
  }

  LiveStream::Place place_;
  Waiters& readers_;
  const StreamReaderPorts ports_;
  Skipping skipping_;
  const std::uint64_t length_;
  std::uint64_t passed_ = 0;
  OutcomeBytes held_;     // what `data` and `end_` are views of
  std::string_view end_;  // not given yet
};

class StoredReader final : public http::ResponseSource {
 public:
  StoredReader(Lanes& store, Waiters& waiters, const StreamReaderPorts& ports, const StoredStream& stream,
               std::uint64_t skip)
      : store_(store), waiters_(waiters), ports_(ports), stream_(stream), skipping_(skip) {}

  Task<BodyChunk> next(Duration /*limit*/) override {
    while (true) {
      while (!chunks_.empty()) {
        held_ = std::move(chunks_.front());
        chunks_.pop_front();
        passed_ += held_->size();
        const std::string_view data = skipping_.rest_of(*held_);
        if (!data.empty()) co_return BodyChunk{.kind = BodyChunk::Kind::data, .data = data};
      }
      if (state_ == StreamState::whole && !rest_.empty()) {
        const std::string_view data = skipping_.rest_of(rest_);
        rest_ = {};
        if (!data.empty()) co_return BodyChunk{.kind = BodyChunk::Kind::data, .data = data};
      }
      if (state_ == StreamState::whole) co_return ended;
      if (state_ == StreamState::cut) co_return cut_off;
      Op read{.verb = Verb::read, .id = stream_.id};
      read.chunk = next_;
      read.chunk_bytes = bytes_per_read;
      co_await store_.run(read, ports_.home);
      take(read);
      if (!chunks_.empty() || state_ != StreamState::open) continue;
      const bool here = co_await pause();
      if (!here) co_return cut_off;
    }
  }

  void done() override { delete this; }

 private:
  // False: the client has left.
  Task<bool> pause() {
    Waiters::Ticket ticket(waiters_, stream_.id, ports_.home);
    const Departure departure(ports_.presence, ticket);
    if (departure.left()) co_return false;
    co_await ticket.wait(look_.next());
    co_return !departure.left();
  }

  void take(Op& read) {
    if (read.status != OpStatus::done) {
      if (store_.store().failed_for_good()) state_ = StreamState::cut;
      return;
    }
    if (!read.record || read.record->nonce != stream_.nonce) {
      state_ = StreamState::cut;
      return;
    }
    if (read.record->state == State::succeeded) return take_outcome(*read.record);
    for (OutcomeBytes& chunk : read.chunks) chunks_.push_back(std::move(chunk));
    if (!chunks_.empty()) look_.reset();
    next_ += static_cast<std::uint32_t>(read.chunks.size());
    if (chunks_.empty() && !owner_works(read)) state_ = StreamState::cut;
  }

  // It has ended, and the record has all of it: the rest is what was not given yet. Unless that is another response,
  // which somebody else has recorded for this claim.
  void take_outcome(const Record& record) {
    state_ = StreamState::cut;
    if (record.outcome == nullptr || record.body_kept == BodyKept::no) return;
    held_ = ports_.memory != nullptr ? ports_.memory->replay(stream_.id, record.nonce, record.outcome) : record.outcome;
    const auto response = held_ ? decode(*held_) : std::nullopt;
    const auto begun = decode(*stream_.head);
    if (!response || !begun || response->body.size() < passed_) return;
    StoredResponse head = *response;
    head.body = {};
    if (head != *begun) return;
    state_ = StreamState::whole;
    rest_ = response->body.substr(static_cast<std::size_t>(passed_));
  }

  Lanes& store_;
  Waiters& waiters_;
  const StreamReaderPorts ports_;
  const StoredStream stream_;
  Skipping skipping_;
  Backoff look_{first_look, slowest_look};
  std::uint32_t next_ = 1;  // chunk 0 is the head
  std::uint64_t passed_ = 0;
  std::deque<OutcomeBytes> chunks_;
  std::string_view rest_;  // of the recorded response, in `held_`
  StreamState state_ = StreamState::open;
  OutcomeBytes held_;  // what `data` is a view of
};

}  // namespace

http::ResponseSourcePtr read_live(std::shared_ptr<LiveStream> stream, Waiters& readers, const StreamReaderPorts& ports,
                                  const ReadFrom& from) {
  return http::ResponseSourcePtr(new LiveReader(std::move(stream), readers, ports, from));
}

http::ResponseSourcePtr read_stored(Lanes& store, Waiters& waiters, const StreamReaderPorts& ports,
                                    const StoredStream& stream, std::uint64_t skip) {
  return http::ResponseSourcePtr(new StoredReader(store, waiters, ports, stream, skip));
}

}  // namespace once::gateway
