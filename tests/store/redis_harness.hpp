// What the tests of the Redis store share: stores on the server that with_server.py started, a connection of the test's
// own beside them, and records as bytes.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "store/redis/cluster.hpp"
#include "store/redis/link.hpp"
#include "store/redis/node.hpp"
#include "store/redis/redis_store.hpp"
#include "tests/store/server_under_test.hpp"
#include "tests/unit/support/layers.hpp"

namespace once::redis_test {

inline constexpr Duration patience = std::chrono::seconds(120);
inline constexpr Fingerprint request{{1}};

inline const Log& quiet_log() {
  static const SystemClock clock;
  static const Log log(clock, STDERR_FILENO, LogLevel::off, LogFormat::text);
  return log;
}

inline std::string url_with(std::string_view option) {
  const std::string url = contract::server_url();
  return url + (url.contains('?') ? "&" : "?") + std::string(option);
}

inline std::unique_ptr<RedisStore> open_store(const std::string& url,
                                              const ServerSettings& settings = ServerSettings()) {
  auto store = RedisStore::open(url, settings, quiet_log());
  if (!store) ADD_FAILURE() << store.error().detail;
  ONCE_ASSERT(store);
  return std::move(*store);
}

// Asks until it is so; false if that takes too long.
inline bool eventually(const std::function<bool()>& condition, Duration most = patience) {
  const redis::Deadline deadline = redis::Deadline::after(most);
  while (!condition()) {
    if (deadline.passed()) return false;
    std::this_thread::yield();
  }
  return true;
}

inline std::string rendered(const redisReply& reply) {
  switch (reply.type) {
    case REDIS_REPLY_INTEGER: return std::to_string(reply.integer);
    case REDIS_REPLY_ARRAY: {
      std::string all;
      for (std::size_t i = 0; i < reply.elements; ++i) all += rendered(*reply.element[i]) + "\n";
      return all;
    }
    default: return std::string(redis::text_of(reply));
  }
}

// A connection of the test's own.
class Peer {
 public:
  explicit Peer(StoreHost host) : host_(std::move(host)) {}

  // Errors come back as their text.
  std::string ask(const std::vector<std::string>& words) {
    if (!link_) {
      auto made = redis::Link::connect(host_, nullptr, redis::Deadline::after(patience));
      if (!made) return made.error().detail;
      link_ = std::move(*made);
    }
    redis::append_command_head(link_->commands(), words.size());
    for (const std::string& word : words) redis::append_argument(link_->commands(), word);
    const auto sent = link_->send();
    const auto reply = sent ? link_->reply(redis::Deadline::after(patience)) : std::unexpected(sent.error());
    if (reply) return rendered(**reply);
    link_.reset();
    return reply.error().detail;
  }
  std::string info(std::string_view section, std::string_view field) {
    const std::string all = ask({"INFO", std::string(section)});
    for (const std::string_view line : split(all, '\n')) {
      if (line.starts_with(std::string(field) + ":")) return std::string(trim(line.substr(field.size() + 1)));
    }
    return {};
  }
  pid_t process() { return static_cast<pid_t>(*parse_number(info("server", "process_id"))); }
  const StoreHost& host() const { return host_; }

 private:
  StoreHost host_;
  std::unique_ptr<redis::Link> link_;
};

inline StoreHost first_host(const std::string& url = contract::server_url()) {
  return redis::parse_options(url)->hosts.front();
}

// Ops of one caller on a store.
class Caller {
 public:
  explicit Caller(RedisStore& store) : store_(store) {}

  struct Begun {
    OperationId id;
    Nonce nonce;
  };
  Begun begin() {
    const Begun begun{.id = new_id(), .nonce = new_nonce()};
    EXPECT_EQ(claim(begun.id, begun.nonce).verdict, Verdict::execute);
    return begun;
  }
  OperationId new_id() {
    OperationId id;
    random_.fill(id.bytes);
    return id;
  }
  Nonce new_nonce() { return random_.nonce(); }

  Op run(Op op) {
    Op* const batch = &op;
    store_.execute({&batch, 1});
    return op;
  }
  void run_all(std::vector<Op>& ops) {
    std::vector<Op*> batch;
    for (Op& op : ops) batch.push_back(&op);
    store_.execute(batch);
  }
  Op claim(const OperationId& id, const Nonce& nonce, const ClaimTerms& terms = usual) {
    return run({.verb = Verb::claim, .id = id, .nonce = nonce, .fingerprint = request, .terms = terms});
  }
  Op finish(const OperationId& id, const Nonce& nonce, std::string value, State state = State::succeeded) {
    return run({.verb = Verb::finish,
                .id = id,
                .nonce = nonce,
                .terms = usual,
                .final_state = state,
                .outcome = std::make_shared<const std::string>(std::move(value))});
  }
  Op finish_in_chunks(const OperationId& id, const Nonce& nonce, std::string head, const ClaimTerms& terms = usual) {
    return run({.verb = Verb::finish,
                .id = id,
                .nonce = nonce,
                .terms = terms,
                .body_kept = BodyKept::in_chunks,
                .outcome = std::make_shared<const std::string>(std::move(head))});
  }
  Op renew(const OperationId& id, const Nonce& nonce, const ClaimTerms& terms = usual) {
    return run({.verb = Verb::renew, .id = id, .nonce = nonce, .terms = terms});
  }
  Op release(const OperationId& id, const Nonce& nonce) {
    return run({.verb = Verb::release, .id = id, .nonce = nonce, .terms = usual});
  }
  OpStatus resolve(const Begun& it, State final, State seen) {
    Op op{.verb = Verb::resolve,
          .id = it.id,
          .nonce = it.nonce,
          .terms = usual,
          .final_state = final,
          .seen_state = seen};
    if (final == State::succeeded) op.outcome = std::make_shared<const std::string>("by hand");
    return run(op).status;
  }
  OpStatus forget(const Begun& it, State seen) {
    return run({.verb = Verb::forget, .id = it.id, .nonce = it.nonce, .seen_state = seen}).status;
  }
  Op lookup(const OperationId& id, Waits waits = Waits::no) {
    return run({.verb = Verb::lookup, .id = id, .waits = waits});
  }

  Op append(const OperationId& id, const Nonce& nonce, std::uint32_t chunk, std::string bytes) {
    return run({.verb = Verb::append,
                .id = id,
                .nonce = nonce,
                .outcome = std::make_shared<const std::string>(std::move(bytes)),
                .chunk = chunk});
  }
  Op read(const OperationId& id, std::uint32_t from = 0, std::size_t bytes = std::size_t{1} << 20U) {
    return run({.verb = Verb::read, .id = id, .chunk = from, .chunk_bytes = bytes});
  }
  Op read_and_wait(const OperationId& id, std::uint32_t from) {
    return run({.verb = Verb::read, .id = id, .waits = Waits::yes, .chunk = from, .chunk_bytes = 1000});
  }

  // As a gateway would: the same op again while the store cannot say.
  Op until_done(const std::function<Op()>& step) {
    Op op;
    eventually([&] {
      op = step();
      return op.status != OpStatus::failed;
    });
    return op;
  }

  static constexpr ClaimTerms usual{.on_unknown = OnUnknown::hold,
                                    .takeover_after = std::chrono::minutes(5),
                                    .lease = std::chrono::minutes(10),
                                    .ttl = std::chrono::hours(1)};

 private:
  RedisStore& store_;
  SystemRandom random_;
};

inline std::string key_of(const OperationId& id, std::string_view prefix = "once:") {
  return std::string(prefix) + to_hex(id);
}

// A record as store/redis/packed.hpp describes it, written down once more.
inline std::string packed(const Record& record, std::string_view outcome = {}, unsigned version = 3) {
  std::string out;
  const auto number = [&](std::uint64_t value, int size) {
    for (int i = size - 1; i >= 0; --i) out.push_back(static_cast<char>(value >> (8 * i)));
  };
  const auto time = [&](Time at) { number(static_cast<std::uint64_t>(at.time_since_epoch().count()), 8); };
  number(version, 1);
  number(static_cast<std::uint64_t>(record.state), 1);
  number(static_cast<std::uint64_t>(record.body_kept), 1);
  number(outcome.empty() ? 0 : 1, 1);
  time(record.expires_at);
  time(record.lease_until);
  number(0, 1);
  number(static_cast<std::uint64_t>(record.previous_state), 1);
  number(static_cast<std::uint64_t>(record.attempt), 4);
  number(static_cast<std::uint64_t>(record.fence), 8);
  time(record.started_at);
  time(record.previous_started_at);
  out.append(record.nonce.view()).append(record.fingerprint.view());
  time(std::max(record.forget_at, record.expires_at));
  out.append(outcome);
  return out;
}

// A store on the servers of the tests, and connections beside it.
class RedisTest : public testing::Test {
 protected:
  RedisTest() {
    for (const StoreHost& host : redis::parse_options(contract::server_url())->hosts) peers_.emplace_back(host);
  }
  static bool on_cluster() { return redis::parse_options(contract::server_url())->mode == redis::Mode::cluster; }
  Peer& peer() { return peers_.front(); }
  Time server_now() {
    const std::string time = peer().ask({"TIME"});
    const auto parts = split(time, '\n');
    return Time(Duration(static_cast<std::int64_t>(*parse_number(parts[0]) * 1000 + *parse_number(parts[1]) / 1000)));
  }
  void set(const OperationId& id, const std::string& value) { ASSERT_EQ(peer().ask({"SET", key_of(id), value}), "OK"); }

  std::vector<Peer> peers_;  // of a cluster: its masters
  std::unique_ptr<RedisStore> store_ = open_store(contract::server_url());
  Caller caller_{*store_};
};

class RedisAlone : public RedisTest {
 protected:
  void SetUp() override {
    if (on_cluster()) GTEST_SKIP() << "it is about one server";
  }
};

// Many operations at once, each claimed by two callers: who executes finishes. Runs until told to stop.
class Workload {
 public:
  Workload(RedisStore& store, int threads, std::function<bool(const OperationId&)> wanted = nullptr);
  ~Workload() { stop(); }
  void stop() {
    stopping_ = true;
    threads_.clear();
  }

  std::uint64_t done() const { return done_; }
  std::uint64_t failed() const { return failed_; }
  // After stop(): every operation stands as its only execution left it.
  void check();

 private:
  void work(std::size_t index);

  RedisStore& store_;
  const std::function<bool(const OperationId&)> wanted_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::uint64_t> failed_{0};  // answers that said so; asked again
  std::atomic<std::uint64_t> twice_{0};   // executed by both
  std::atomic<std::uint64_t> lost_{0};    // the owner was told that it is not
  std::vector<std::vector<OperationId>> ids_;
  std::vector<std::jthread> threads_;
};

inline Workload::Workload(RedisStore& store, int threads, std::function<bool(const OperationId&)> wanted)
    : store_(store), wanted_(std::move(wanted)), ids_(static_cast<std::size_t>(threads)) {
  for (std::size_t i = 0; i < ids_.size(); ++i) threads_.emplace_back([this, i] { work(i); });
}

inline void Workload::work(std::size_t index) {
  Caller caller(store_);
  while (!stopping_) {
    OperationId id = caller.new_id();
    while (wanted_ && !wanted_(id)) id = caller.new_id();
    const Nonce nonces[2] = {caller.new_nonce(), caller.new_nonce()};
    int executing = 0;
    for (const Nonce& nonce : nonces) {
      const Op claimed = caller.until_done([&] {
        Op op = caller.claim(id, nonce);
        if (op.status == OpStatus::failed) ++failed_;
        return op;
      });
      if (claimed.status != OpStatus::done || claimed.verdict != Verdict::execute) continue;
      if (++executing > 1) ++twice_;
      const Op finished = caller.until_done([&] {
        Op op = caller.finish(id, nonce, to_hex(id));
        if (op.status == OpStatus::failed) ++failed_;
        return op;
      });
      if (finished.status != OpStatus::done) ++lost_;
    }
    ids_[index].push_back(id);
    ++done_;
  }
}

inline void Workload::check() {
  Caller caller(store_);
  EXPECT_EQ(twice_, 0U);
  EXPECT_EQ(lost_, 0U);
  EXPECT_GT(done_, 0U);
  std::uint64_t missing = 0;
  for (const auto& list : ids_) {
    for (const OperationId& id : list) {
      const Op found = caller.until_done([&] { return caller.lookup(id); });
      const bool stands = found.record && found.record->state == State::succeeded &&
                          found.record->attempt == Attempt{1} && found.record->outcome &&
                          *found.record->outcome == to_hex(id);
      if (!stands) ++missing;
    }
  }
  EXPECT_EQ(missing, 0U);
}

// Whose ends a store was told of.
class Ends {
 public:
  void tell(const OperationId& id) {
    const std::scoped_lock lock(mutex_);
    told_.insert(id);
    changed_.notify_all();
  }
  bool await(const OperationId& id) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return told_.contains(id); });
  }
  bool has(const OperationId& id) {
    const std::scoped_lock lock(mutex_);
    return told_.contains(id);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<OperationId> told_;
};

// A server, stopped.
class Stopped {
 public:
  explicit Stopped(Peer& peer) : process_(peer.process()) { ::kill(process_, SIGSTOP); }
  ~Stopped() { resume(); }
  void resume() { ::kill(process_, SIGCONT); }

 private:
  pid_t process_;
};

}  // namespace once::redis_test
