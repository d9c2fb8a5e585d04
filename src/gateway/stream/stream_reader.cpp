#include "gateway/stream/stream_reader.hpp"

#include <algorithm>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>

#include "base/backoff.hpp"
#include "base/sha256.hpp"
#include "base/sometimes.hpp"
#include "core/outcome.hpp"
#include "store/claim_steps.hpp"

namespace once::gateway {

namespace {

using http::BodyChunk;

// A waiting reader checks its stream at least this often.
constexpr Duration longest_pause = std::chrono::seconds(1);
// Not every store notifies of appends by other gateways: how often to poll the store for them.
constexpr Duration first_look = std::chrono::milliseconds(20);
constexpr Duration slowest_look = std::chrono::milliseconds(250);

constexpr BodyChunk ended{.kind = BodyChunk::Kind::end, .data = {}};
constexpr BodyChunk cut_off{.kind = BodyChunk::Kind::broken, .data = {}};

// Drops the bytes that the client already has.
class Skipping {
 public:
  explicit Skipping(std::uint64_t bytes) : left_(bytes) {}

  std::string_view rest_of(std::string_view part) {
    const auto skipped = static_cast<std::size_t>(std::min<std::uint64_t>(left_, part.size()));
    left_ -= skipped;
    return part.substr(skipped);
  }

 private:
  std::uint64_t left_;
};

class StreamReader final : public http::ResponseSource {
 public:
  StreamReader(const StreamReaderPorts& ports, const StreamToRead& stream)
      : ports_(ports), stream_(stream), skipping_(stream.skip) {
    if (stream.live) place_.emplace(stream.live);
  }
  StreamReader(const StreamReaderPorts& ports, const StreamToRead& stream, RecordedBody begun)
      : StreamReader(ports, stream) {
    recorded_ = decode(*stream_.head)->in_chunks;
    room_ = std::move(begun.room);
    queue(begun.chunks);
  }

  // The owner ends a stream that is silent for too long, so `limit` only bounds how long the store may fail to answer.
  Task<BodyChunk> next(Duration limit) override {
    Duration failing{};
    while (true) {
      const std::string_view data = at_hand();
      if (!data.empty()) co_return BodyChunk{.kind = BodyChunk::Kind::data, .data = data};
      if (end_) co_return *end_ == StreamState::whole && !stream_.unknown_outcome ? ended : cut_off;
      const Source source = look();
      if (source == Source::at_hand) continue;
      Duration pause = longest_pause;
      if (source == Source::store) {
        const Reserved room = co_await make_room();
        sometimes<"reader: no memory">(room == Reserved::no);
        if (room == Reserved::no) co_return cut_off;
        const Found found = co_await read_store();
        if (found == Found::something) continue;
        pause = look_.next();
        failing = found == Found::failure ? failing + pause : Duration::zero();
        sometimes<"reader: store failed for too long">(failing > limit);
        if (failing > limit) co_return cut_off;
      }
      const Client client = co_await wait(pause);
      sometimes<"reader: the client left">(client == Client::left);
      if (client == Client::left) co_return cut_off;
    }
  }

  void done() override { delete this; }

 private:
  enum class Source : std::uint8_t { at_hand, store, later };
  enum class Found : std::uint8_t { something, nothing, failure };
  enum class Client : std::uint8_t { here, left };

  // The next bytes that need neither the store nor a wait. If the length is known, its last byte is held back until the
  // whole response is recorded, because it completes the response.
  std::string_view at_hand() {
    while (!chunks_.empty()) {
      held_ = std::move(chunks_.front());
      chunks_.pop_front();
      if (is_too_much(*held_)) chunks_.clear();
      if (end_) return {};
      const std::string_view data = without_end(skipping_.rest_of(pass(*held_)));
      if (!data.empty()) return data;
    }
    if (!rest_.empty()) {
      const std::string_view data = skipping_.rest_of(std::exchange(rest_, {}));
      if (!data.empty()) return data;
    }
    if (end_ == StreamState::whole) return std::exchange(last_byte_, {});
    return {};
  }

  // Whether the chunk exceeds the length that the client was sent.
  bool is_too_much(std::string_view chunk) {
    const std::uint64_t most = recorded_ && recorded_->length ? *recorded_->length : chunk.size() + passed_;
    if (chunk.size() > most - std::min(most, passed_)) end_ = StreamState::cut;
    return end_ == StreamState::cut;
  }

  std::string_view pass(std::string_view chunk) {
    passed_ += chunk.size();
    if (compares()) digest_.update(chunk);
    return chunk;
  }

  std::string_view without_end(std::string_view data) {
    if (passed_ != stream_.length || data.empty()) return data;
    last_byte_ = data.substr(data.size() - 1);
    return data.substr(0, data.size() - 1);
  }

  // Only a stream of another gateway can be replaced by a different recorded response.
  bool compares() const { return !place_ && !recorded_; }

  Source look() {
    if (!place_) return look_at_record();
    const LiveStream::Look look = place_->look();
    live_ended_ = look.state != StreamState::open;
    if (look.committed) {
      continue_in(look.committed);
      return Source::at_hand;
    }
    switch (look.found) {
      case LiveStream::Look::Found::chunk:
        advance(1);
        chunks_.push_back(look.chunk);
        room_ = ReaderMemory::Room();
        return Source::at_hand;
      case LiveStream::Look::Found::in_store:
        sometimes<"reader: too slow for memory, reads the store">();
        return Source::store;
      case LiveStream::Look::Found::gone:
        sometimes<"reader: too slow, the rest is gone">();
        end_ = StreamState::cut;
        return Source::at_hand;
      case LiveStream::Look::Found::nothing: break;
    }
    if (!live_ended_) return Source::later;
    end_ = look.state;
    return Source::at_hand;
  }

  Source look_at_record() {
    if (!recorded_ || recorded_->length != passed_) return Source::store;
    end_ = StreamState::whole;
    return Source::at_hand;
  }

  Task<Reserved> make_room() {
    if (ports_.memory == nullptr || room_) co_return Reserved::yes;
    std::optional<ReaderMemory::Room> room = co_await ports_.memory->room_to_read(bytes_per_read);
    if (!room) co_return Reserved::no;
    room_ = *std::move(room);
    co_return Reserved::yes;
  }

  Task<Found> read_store() {
    Op read{.verb = Verb::read, .id = stream_.id};
    read.chunk = place_ ? place_->chunk() : next_;
    read.chunk_bytes = bytes_per_read;
    read.waits = place_ || recorded_ ? Waits::no : Waits::yes;
    co_await ports_.store.run(read, ports_.home);
    if (read.status != OpStatus::done) {
      if (ports_.store.store().failed_for_good()) end_ = StreamState::cut;
    } else if (place_) {
      take_for_live(read);
    } else {
      take(read);
      if (recorded_ && !recorded_->length && chunks_.empty() && !end_) co_await confirm_stopped_end();
    }
    if (!chunks_.empty() || !rest_.empty() || end_) co_return Found::something;
    co_return read.status == OpStatus::done ? Found::nothing : Found::failure;
  }

  void advance(std::size_t chunks) {
    if (place_ && place_->advance(chunks) == LiveStream::Place::Owner::wakes) ports_.readers.notify(stream_.id);
  }

  // An empty chunk is the last one: the rest of the response is not recorded.
  void queue(std::vector<OutcomeBytes>& chunks) {
    if (!chunks.empty() && chunks.back()->empty()) {
      chunks.pop_back();
      is_part_ = true;
    }
    if (!chunks.empty()) look_.reset();
    advance(chunks.size());
    next_ += static_cast<std::uint32_t>(chunks.size());
    for (OutcomeBytes& chunk : chunks) chunks_.push_back(std::move(chunk));
  }

  // The owner decides how a live stream ends. Missing chunks were lost by the store and may be appended again.
  void take_for_live(Op& read) {
    const bool current = read.record && read.record->nonce == place_->stream().nonce();
    sometimes<"reader: chunks in the store are of another attempt">(read.record && !current);
    if (current) queue(read.chunks);
    if (chunks_.empty() && live_ended_) end_ = StreamState::cut;
  }

  void take(Op& read) {
    if (!read.record || read.record->nonce != stream_.nonce) {
      sometimes<"reader: overtaken by another attempt">();
      end_ = StreamState::cut;
      return;
    }
    if (read.record->state == State::succeeded && !recorded_) learn_end(*read.record);
    if (end_ || !rest_.empty()) return;
    queue(read.chunks);
    if (!chunks_.empty()) return;
    if (is_part_) {
      sometimes<"reader: the rest is not recorded">();
      end_ = StreamState::cut;
      return;
    }
    if (!recorded_) {
      sometimes<"reader: the owner is gone">(!owner_works(read));
      if (!owner_works(read)) end_ = StreamState::cut;
      return;
    }
    // Everything recorded was read. A stopped response ends cleanly only for clients whose head said that it was
    // stopped.
    sometimes<"reader: stopped at another gateway">(stopped_on_the_way_);
    if (stopped_on_the_way_) end_ = StreamState::cut;
    if (recorded_->length) end_ = *recorded_->length == passed_ ? StreamState::whole : StreamState::cut;
  }

  // The length of a stopped response is not recorded: it ends at its last chunk, if that is still in the store.
  Task<void> confirm_stopped_end() {
    Op read{.verb = Verb::read, .id = stream_.id};
    read.chunk = next_ - 1;
    read.chunk_bytes = 1;
    co_await ports_.store.run(read, ports_.home);
    if (read.status != OpStatus::done) co_return;
    const bool stands = read.record && read.record->nonce == stream_.nonce && !read.chunks.empty();
    sometimes<"reader: a stopped response is gone before its end">(!stands);
    end_ = stands ? StreamState::whole : StreamState::cut;
  }

  // The stream has ended. Its body stays in chunks, or the record has the whole response.
  void learn_end(const Record& record) {
    if (record.outcome == nullptr || record.body_kept == BodyKept::no) {
      end_ = StreamState::cut;
    } else if (record.body_kept == BodyKept::yes) {
      continue_in(ports_.memory != nullptr ? ports_.memory->replay(stream_.id, record.nonce, record.outcome)
                                           : record.outcome);
    } else {
      const auto response = decode(*record.outcome);
      recorded_ = response ? response->in_chunks : std::nullopt;
      stopped_on_the_way_ = recorded_ && !recorded_->length;
      if (!recorded_ || (recorded_->length && !same_head(record.outcome, stream_.head))) end_ = StreamState::cut;
    }
  }

  // Continues in the recorded response after the bytes already given, unless the record is a different response.
  void continue_in(OutcomeBytes outcome) {
    end_ = StreamState::cut;
    const auto response = outcome ? decode(*outcome) : std::nullopt;
    if (!response || response->in_chunks || response->body.size() < passed_ || !same_head(outcome, stream_.head))
      return;
    const auto passed = static_cast<std::size_t>(passed_);
    Sha256 begins;
    begins.update(response->body.substr(0, passed));
    const bool differs = compares() && begins.digest() != Sha256(digest_).digest();
    sometimes<"reader: another response was recorded">(differs);
    if (differs) return;
    sometimes<"reader: continues in the recorded response">();
    end_ = StreamState::whole;
    if (response->body.size() == passed) return;
    held_ = std::move(outcome);
    rest_ = response->body.substr(passed);
  }

  Task<Client> wait(Duration pause) {
    Waiters::Ticket ticket(place_ ? ports_.readers : ports_.waiters, stream_.id, ports_.home);
    if (place_) {
      const LiveStream::Look look = place_->look();
      const bool nothing_new = look.found == LiveStream::Look::Found::nothing && look.state == StreamState::open;
      if (pause == longest_pause && !nothing_new) co_return Client::here;
    }
    const Departure departure(ports_.presence, ticket);
    if (departure.left()) co_return Client::left;
    co_await ticket.wait(pause);
    co_return departure.left() ? Client::left : Client::here;
  }

  const StreamReaderPorts ports_;
  const StreamToRead stream_;
  std::optional<LiveStream::Place> place_;
  Skipping skipping_;
  Backoff look_{first_look, slowest_look};
  std::uint32_t next_ = 1;    // the next chunk to read, if there is no place
  std::uint64_t passed_ = 0;  // bytes of the body
  Sha256 digest_;             // of the bytes passed, if they are compared with the record
  std::deque<OutcomeBytes> chunks_;
  ReaderMemory::Room room_;
  bool live_ended_ = false;               // as of the last look
  std::optional<BodyInChunks> recorded_;  // set if the response has ended and its body stays in chunks
  bool is_part_ = false;                  // the record is incomplete: only readers in the owner's process get the
                                          // rest
  bool stopped_on_the_way_ = false;       // the stream was stopped after its client got a head without that field
  std::string_view rest_;                 // of a recorded response, in `held_`
  std::string_view last_byte_;            // held back until the response is recorded
  std::optional<StreamState> end_;        // how the stream ends after the bytes at hand
  OutcomeBytes held_;                     // the memory behind `data`
};

}  // namespace

http::ResponseSourcePtr read_stream(const StreamReaderPorts& ports, const StreamToRead& stream) {
  return http::ResponseSourcePtr(new StreamReader(ports, stream));
}

http::ResponseSourcePtr read_recorded(const StreamReaderPorts& ports, const StreamToRead& stream, RecordedBody begun) {
  return http::ResponseSourcePtr(new StreamReader(ports, stream, std::move(begun)));
}

bool same_head(const OutcomeBytes& one, const OutcomeBytes& other) {
  const auto first = decode(*one);
  const auto second = decode(*other);
  return first && second && first->status == second->status && first->headers == second->headers;
}

}  // namespace once::gateway
