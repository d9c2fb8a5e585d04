// The Redis store against a server that answers what it likes: nothing it says may crash us, hang us, or pass for an
// answer that it is not. No real server can be made to say these things.
#include <array>
#include <mutex>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <poll.h>

#include "store/redis/cluster.hpp"
#include "store/redis/packed.hpp"
#include "store/redis/reply.hpp"
#include "tests/store/redis_harness.hpp"
#include "tests/unit/support/loopback.hpp"

namespace once::redis_test {
namespace redis_replies_test {

using std::chrono::milliseconds;
using testing::HasSubstr;

// Answers greetings as Redis does, and every script with the same bytes.
class Fake {
 public:
  Fake() : thread_([this](const std::stop_token& stop) { serve(stop); }) {}

  std::uint16_t port() const { return listener_.port(); }
  std::string url(std::string_view options = {}) const {
    return fmt::format("redis://127.0.0.1:{}{}", port(), options);
  }
  // `scripts` may end in "CLOSE": the connection ends there.
  void answer(std::string scripts, std::string slots = "*0\r\n") {
    const std::scoped_lock lock(mutex_);
    scripts_ = std::move(scripts);
    slots_ = std::move(slots);
  }
  void introduce(std::string info) {
    const std::scoped_lock lock(mutex_);
    info_ = std::move(info);
  }
  int calls() const { return calls_; }

 private:
  struct Client {
    Descriptor socket;
    std::unique_ptr<redisReader, decltype([](redisReader* reader) { redisReaderFree(reader); })> reader;
  };

  void serve(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::vector<pollfd> waiting = {{.fd = listener_.descriptor(), .events = POLLIN, .revents = 0}};
      for (const Client& client : clients_)
        waiting.push_back({.fd = client.socket.get(), .events = POLLIN, .revents = 0});
      ::poll(waiting.data(), waiting.size(), 20);
      std::vector<Client> staying;
      for (std::size_t i = 1; i < waiting.size(); ++i) {
        if (waiting[i].revents == 0 || answer_one(clients_[i - 1])) staying.push_back(std::move(clients_[i - 1]));
      }
      clients_ = std::move(staying);
      if (waiting[0].revents == 0) continue;
      clients_.push_back({.socket = listener_.accept(), .reader = decltype(Client::reader)(redisReaderCreate())});
    }
  }
  // False: the connection ends.
  bool answer_one(Client& client) {
    std::array<char, 65'536> bytes{};
    const ssize_t size = ::recv(client.socket.get(), bytes.data(), bytes.size(), 0);
    if (size <= 0) return false;
    redisReaderFeed(client.reader.get(), bytes.data(), static_cast<std::size_t>(size));
    while (true) {
      void* parsed = nullptr;
      if (redisReaderGetReply(client.reader.get(), &parsed) != REDIS_OK || parsed == nullptr) return true;
      const redis::Reply command(static_cast<redisReply*>(parsed));
      std::string said = reply_to(redis::text_of(*command->element[0]));
      const bool closes = said.ends_with("CLOSE");
      if (closes) said.resize(said.size() - 5);
      ::send(client.socket.get(), said.data(), said.size(), MSG_NOSIGNAL);
      if (closes) return false;
    }
  }
  std::string reply_to(std::string_view command) {
    const std::scoped_lock lock(mutex_);
    if (command == "PING") return "+PONG\r\n";
    if (command == "TIME") return "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n";
    if (command == "INFO") return fmt::format("${}\r\n{}\r\n", info_.size(), info_);
    if (command == "CONFIG") return "*0\r\n";
    if (command == "SCRIPT") return "+OK\r\n";
    if (command == "ASKING") return "+OK\r\n";
    if (command == "CLUSTER") return slots_;
    ++calls_;
    return scripts_;
  }

  const LoopbackListener listener_;
  std::mutex mutex_;
  std::string scripts_;
  std::string slots_;
  std::string info_ = "# Server\r\nredis_version:6.2.0\r\nredis_mode:standalone\r\n";
  std::atomic<int> calls_{0};
  std::vector<Client> clients_;
  std::jthread thread_;
};

std::vector<Op> every_verb(RedisStore& store) {
  Caller caller(store);
  const OperationId id = caller.new_id();
  const Nonce nonce = caller.new_nonce();
  return {caller.claim(id, nonce),
          caller.renew(id, nonce),
          caller.finish(id, nonce, "x"),
          caller.release(id, nonce),
          caller.lookup(id),
          caller.append(id, nonce, 0, "x"),
          caller.read(id)};
}

std::string bulk(std::string_view text) {
  return fmt::format("${}\r\n{}\r\n", text.size(), text);
}

const std::string clock_bytes("\0\6\x30\0\0\0\0\0", 8);

TEST(RedisReplies, nonsense_is_never_taken_for_an_answer) {
  Fake fake;
  const auto store = open_store(fake.url(), {.timeout = milliseconds(250)});
  Record odd;
  odd.fingerprint = request;
  std::string bad_state = packed(odd);
  bad_state[1] = '\x7f';
  for (const std::string& answer : {std::string("?what\r\n"),
                                    std::string("+OK\r\n"),
                                    std::string(":0\r\n"),
                                    std::string(":-5\r\n"),
                                    std::string("*2\r\n:1\r\n:2\r\n"),
                                    std::string("$-1\r\n"),
                                    std::string("*-1\r\n"),
                                    std::string("$-7\r\n"),
                                    std::string("*-7\r\n"),
                                    std::string("$99999999999999999999\r\n"),
                                    std::string("*2147483647\r\n"),
                                    std::string("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"),
                                    std::string("\r\n"),
                                    std::string(1, '\0'),
                                    bulk(""),
                                    bulk("W"),
                                    bulk("Z" + clock_bytes),
                                    bulk("W" + clock_bytes + "short"),
                                    bulk("S" + clock_bytes + bad_state),
                                    std::string("$5\r\nabCLOSE"),
                                    std::string("CLOSE"),
                                    std::string("-MOVED\r\n"),
                                    std::string("-ASK 1 nowhere:99999999\r\n"),
                                    std::string("-\r\n"),
                                    std::string("-SOMETHING new\r\n")}) {
    fake.answer(answer);
    for (const Op& op : every_verb(*store)) {
      EXPECT_EQ(op.status, OpStatus::failed) << answer;
      EXPECT_FALSE(op.error.empty()) << answer;
      EXPECT_FALSE(op.record.has_value()) << answer;
    }
  }
}

TEST(RedisReplies, an_answer_of_another_verb_is_not_taken) {
  Fake fake;
  const auto store = open_store(fake.url());
  const auto statuses = [&] {
    std::string all;
    for (const Op& op : every_verb(*store)) all += op.status == OpStatus::failed ? 'f' : 'a';
    return all;  // claim, renew, finish, release, lookup, append, read
  };
  fake.answer(":1700000000000000\r\n");
  EXPECT_EQ(statuses(), "affffff");
  fake.answer(bulk("W" + clock_bytes));
  EXPECT_EQ(statuses(), "fafafaf");
  fake.answer(bulk("L" + clock_bytes));
  EXPECT_EQ(statuses(), "faaafaf");
  fake.answer(bulk("N" + clock_bytes));
  EXPECT_EQ(statuses(), "ffffafa");
  fake.answer(bulk("U" + clock_bytes));
  EXPECT_EQ(statuses(), "fffffff");
  fake.answer(bulk("M" + clock_bytes));
  EXPECT_EQ(statuses(), "fffffff");
}

TEST(RedisReplies, chunks_are_taken_only_with_a_record_that_may_have_them) {
  Fake fake;
  const auto store = open_store(fake.url());
  Caller caller(*store);
  Record record;
  record.fingerprint = request;
  record.expires_at = Time(Duration(std::int64_t{1} << 50U));
  const auto stands = [&](State state) {
    record.state = state;
    return bulk("S" + clock_bytes + packed(record));
  };
  for (const State state : {State::started, State::unknown}) {
    fake.answer("*3\r\n" + stands(state) + bulk("head") + bulk(""));
    const Op op = caller.read(caller.new_id());
    ASSERT_EQ(op.status, OpStatus::done) << op.error;
    EXPECT_EQ(op.record->state, state);
    ASSERT_EQ(op.chunks.size(), 2U);
    EXPECT_EQ(*op.chunks[0], "head");
    EXPECT_EQ(*op.chunks[1], "");
    EXPECT_EQ(caller.lookup(caller.new_id()).status, OpStatus::failed) << "nobody asked for chunks";
  }
  for (const std::string& answer :
       {"*2\r\n" + stands(State::succeeded) + bulk("head"), "*2\r\n" + stands(State::failed) + bulk("head"),
        "*2\r\n" + bulk("N" + clock_bytes) + bulk("head"), "*2\r\n" + bulk("W" + clock_bytes) + bulk("head"),
        "*2\r\n" + bulk("") + bulk("head"), "*2\r\n" + stands(State::started) + ":1\r\n",
        "*2\r\n" + stands(State::started) + "$-1\r\n", "*1\r\n" + stands(State::started), std::string("*0\r\n"),
        "*2\r\n*2\r\n" + stands(State::started) + bulk("head") + bulk("one")}) {
    fake.answer(answer);
    const Op op = caller.read(caller.new_id());
    EXPECT_EQ(op.status, OpStatus::failed) << answer;
    EXPECT_FALSE(op.record.has_value()) << answer;
    EXPECT_TRUE(op.chunks.empty()) << answer;
  }
}

TEST(RedisReplies, what_the_script_did_not_write_is_not_executed_whatever_it_looks_like) {
  Fake fake;
  const auto store = open_store(fake.url());
  Record failed;
  failed.state = State::failed;
  failed.fingerprint = request;
  failed.expires_at = Time(Duration(std::int64_t{1} << 50U));
  fake.answer(bulk("S" + clock_bytes + packed(failed)));
  Caller caller(*store);
  const Op op = caller.claim(caller.new_id(), caller.new_nonce());
  EXPECT_EQ(op.status, OpStatus::failed);
  EXPECT_EQ(op.fault, StoreFault::unavailable);
}

TEST(RedisReplies, refusals_say_whether_anything_was_done) {
  Fake fake;
  const auto store = open_store(fake.url());
  struct Case {
    std::string answer;
    StoreFault fault;
  };
  for (const Case& each :
       {Case{"-OOM command not allowed when used memory > 'maxmemory'.\r\n", StoreFault::full},
        Case{"-ERR Error running script (call to f_1): @user_script:9: @user_script: 9: -OOM command not allowed\r\n",
             StoreFault::full},
        Case{"-MISCONF Redis is configured to save\r\n", StoreFault::refused},
        Case{"-LOADING Redis is loading\r\n", StoreFault::refused},
        Case{"-MASTERDOWN Link with MASTER is down\r\n", StoreFault::refused},
        Case{"-CLUSTERDOWN The cluster is down\r\n", StoreFault::refused},
        Case{"-TRYAGAIN Multiple keys\r\n", StoreFault::refused},
        Case{"-NOSCRIPT No matching script\r\n", StoreFault::refused},
        Case{"-MOVED 1 127.0.0.1:1\r\n", StoreFault::refused}, Case{"CLOSE", StoreFault::unavailable}}) {
    fake.answer(each.answer);
    Caller caller(*store);
    const Op op = caller.claim(caller.new_id(), caller.new_nonce());
    EXPECT_EQ(op.status, OpStatus::failed) << each.answer;
    EXPECT_EQ(op.fault, each.fault) << each.answer;
    if (each.answer.starts_with("-")) EXPECT_THAT(op.error, HasSubstr(each.answer.substr(1, 5)));
  }
  EXPECT_EQ(store->stats().indeterminate, 1U);
}

TEST(RedisReplies, an_op_that_broke_is_asked_again_once_and_then_left_open) {
  Fake fake;
  const auto store = open_store(fake.url());
  fake.answer("CLOSE");
  const int before = fake.calls();
  Caller caller(*store);
  const Op op = caller.claim(caller.new_id(), caller.new_nonce());
  EXPECT_EQ(op.status, OpStatus::failed);
  EXPECT_EQ(op.fault, StoreFault::unavailable);
  EXPECT_EQ(fake.calls(), before + 2);
}

TEST(RedisReplies, redirections_that_lead_in_a_circle_end) {
  Fake fake;
  const std::string slots =
      fmt::format("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:{}\r\n$1\r\nx\r\n", fake.port());
  for (const std::string_view kind : {"MOVED", "ASK"}) {
    fake.answer(fmt::format("-{} 1 127.0.0.1:{}\r\n", kind, fake.port()), slots);
    const auto store = open_store(fake.url("?cluster=1"));
    Caller caller(*store);
    const int before = fake.calls();
    const Op op = caller.claim(caller.new_id(), caller.new_nonce());
    EXPECT_EQ(op.status, OpStatus::failed);
    EXPECT_EQ(op.fault, StoreFault::refused);
    EXPECT_THAT(op.error, HasSubstr(std::string(kind)));
    EXPECT_LE(fake.calls() - before, 8);
  }
}

TEST(RedisReplies, layouts_that_make_no_sense_are_refused) {
  Fake fake;
  for (const std::string& slots :
       {std::string("*0\r\n"), std::string("+OK\r\n"), std::string("*1\r\n*0\r\n"), std::string("*1\r\n:1\r\n"),
        std::string("*1\r\n*3\r\n:5\r\n:1\r\n*2\r\n$1\r\nx\r\n:1\r\n"),
        std::string("*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nx\r\n:1\r\n"),
        std::string("*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\nx\r\n:70000\r\n"),
        std::string("*1\r\n*3\r\n:-1\r\n:1\r\n*2\r\n$1\r\nx\r\n:1\r\n"), std::string("?\r\n"), std::string("CLOSE")}) {
    fake.answer("+OK\r\n", slots);
    const auto store = open_store(fake.url("?cluster=1"));
    Caller caller(*store);
    const Op op = caller.claim(caller.new_id(), caller.new_nonce());
    EXPECT_EQ(op.status, OpStatus::failed) << slots;
    EXPECT_EQ(op.fault, StoreFault::refused) << slots;
  }
}

TEST(RedisReplies, a_server_too_old_or_of_another_kind_is_refused) {
  Fake fake;
  for (const auto& [info, advice] : {std::pair("redis_version:6.0.16\r\n", "6.2 or newer"),
                                     {"redis_version:5.9.0\r\n", "6.2 or newer"},
                                     {"redis_version:7.0.0\r\nredis_mode:sentinel\r\n", "sentinel=NAME"},
                                     {"redis_version:7.0.0\r\nredis_mode:cluster\r\n", "cluster=1"}}) {
    fake.introduce(info);
    const auto store = RedisStore::open(fake.url(), ServerSettings(), quiet_log());
    ASSERT_FALSE(store) << info;
    EXPECT_EQ(store.error().retryable, Retryable::no);
    EXPECT_THAT(store.error().detail, HasSubstr(advice));
  }
  for (const std::string info : {"redis_version:10.0.1\r\n", "redis_version:what\r\n", ""}) {
    fake.introduce(info);
    EXPECT_TRUE(RedisStore::open(fake.url(), ServerSettings(), quiet_log())) << info;
  }
}

TEST(RedisReplies, redirections_are_read_as_the_specification_says) {
  const StoreHost asked{.name = "asked", .port = 7};
  EXPECT_EQ(redis::error_code("MOVED 1 a:2"), "MOVED");
  EXPECT_EQ(redis::error_code(""), "");
  EXPECT_EQ(redis::read_redirection("MOVED 3999 127.0.0.1:6381", asked)->to.port, 6381);
  EXPECT_EQ(redis::read_redirection("MOVED 3999 :6381", asked)->to.name, "asked");
  EXPECT_EQ(redis::read_redirection("MOVED 3999 ?:6381", asked)->to.name, "asked");
  EXPECT_EQ(redis::read_redirection("ASK 3999 ::1:6381", asked)->to.name, "::1");
  EXPECT_TRUE(redis::read_redirection("ASK 3999 ::1:6381", asked)->ask);
  EXPECT_FALSE(redis::read_redirection("MOVED 3999 host:0", asked));
  EXPECT_FALSE(redis::read_redirection("MOVED 3999 host", asked));
  EXPECT_FALSE(redis::read_redirection("ERR 3999 host:1", asked));
  EXPECT_EQ(redis::slot_of("123456789"), 0x31c3);
}

TEST(RedisReplies, records_come_back_as_they_were_packed) {
  Record record;
  record.state = State::unknown;
  record.body_kept = BodyKept::no;
  record.attempt = Attempt{0x01020304};
  record.fence = Fence{0x0102030405060708};
  record.fingerprint = Fingerprint{{1, 2, 3}};
  record.nonce = Nonce{{4, 5, 6}};
  record.started_at = Time(Duration(1'700'000'000'001));
  record.lease_until = Time(Duration(1'700'000'000'002));
  record.expires_at = Time(Duration(std::int64_t{1} << 52U));
  record.previous_state = State::failed;
  record.previous_started_at = Time(Duration(1'700'000'000'003));
  const auto read = redis::unpack_record(packed(record, "outcome"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->state, State::unknown);
  EXPECT_EQ(read->body_kept, BodyKept::no);
  EXPECT_EQ(read->attempt, record.attempt);
  EXPECT_EQ(read->fence, record.fence);
  EXPECT_EQ(read->fingerprint, record.fingerprint);
  EXPECT_EQ(read->nonce, record.nonce);
  EXPECT_EQ(read->started_at, record.started_at);
  EXPECT_EQ(read->lease_until, record.lease_until);
  EXPECT_EQ(read->expires_at, Time::max());
  EXPECT_EQ(read->previous_state, State::failed);
  EXPECT_EQ(read->previous_started_at, record.previous_started_at);
  EXPECT_EQ(*read->outcome, "outcome");
  EXPECT_FALSE(redis::unpack_record(std::string_view(packed(record)).substr(1)));
  std::string of_version = packed(record, "outcome");
  for (const auto& [version, reads] : {std::pair('\1', false), {'\2', true}, {'\3', true}, {'\4', false}}) {
    of_version[0] = version;
    EXPECT_EQ(redis::unpack_record(of_version).has_value(), reads) << int{version};
  }
}

}  // namespace redis_replies_test
}  // namespace once::redis_test
