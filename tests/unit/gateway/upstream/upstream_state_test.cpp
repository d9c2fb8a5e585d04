// When a server counts as up, how names are looked up again, and what the watch asks.
#include "gateway/upstream/upstream_state.hpp"

#include <fcntl.h>

#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "gateway/upstream/upstream_resolver.hpp"
#include "gateway/upstream/upstreams.hpp"
#include "http/fault_log.hpp"
#include "http/service.hpp"
#include "tests/unit/support/fake_server.hpp"

namespace once::gateway {
namespace upstream_state_test {

using namespace std::chrono_literals;
using Change = ServerHealth::Change;

constexpr std::chrono::seconds patience(20);

void wait_until(const std::function<bool()>& condition) {
  const auto until = monotonic_now() + patience;
  while (!condition()) {
    ASSERT_LT(monotonic_now(), until);
    std::this_thread::yield();
  }
}

TEST(ServerHealthTest, checks_in_a_row_decide) {
  ServerHealth health({.path = "/", .failures = 2, .successes = 3}, 10s);
  EXPECT_EQ(health.checked(false), Change::none);
  EXPECT_EQ(health.checked(true), Change::none);
  EXPECT_EQ(health.checked(false), Change::none) << "not in a row";
  EXPECT_EQ(health.checked(false), Change::down);
  EXPECT_FALSE(health.up(0s));
  EXPECT_EQ(health.checked(false), Change::none) << "said once";
  EXPECT_EQ(health.checked(true), Change::none);
  EXPECT_EQ(health.checked(true), Change::none);
  EXPECT_FALSE(health.shown_up());
  EXPECT_EQ(health.checked(true), Change::up);
  EXPECT_TRUE(health.up(0s) && health.shown_up());
}

TEST(ServerHealthTest, connects_in_a_row_decide_for_a_while) {
  ServerHealth health({.failures = 2}, 10s);
  EXPECT_EQ(health.not_reached(1s), Change::none);
  EXPECT_EQ(health.reached(), Change::none);
  EXPECT_EQ(health.not_reached(1s), Change::none) << "not in a row";
  EXPECT_EQ(health.not_reached(1s), Change::down);
  EXPECT_FALSE(health.up(10s));
  EXPECT_TRUE(health.up(11s)) << "worth another try";
  EXPECT_FALSE(health.shown_up());
  EXPECT_EQ(health.not_reached(12s), Change::none) << "one more failure is enough, and no news";
  EXPECT_FALSE(health.up(21s));
  EXPECT_EQ(health.reached(), Change::up);
  EXPECT_TRUE(health.up(21s) && health.shown_up());
}

TEST(ServerHealthTest, only_one_tries_a_server_that_was_avoided) {
  ServerHealth health({.failures = 1}, 10s);
  health.probe(1s);
  EXPECT_TRUE(health.up(1s)) << "nothing to try";
  health.not_reached(1s);
  health.probe(5s);
  EXPECT_TRUE(health.up(11s)) << "not before its time";
  health.probe(11s);
  EXPECT_FALSE(health.up(11s)) << "the next one goes elsewhere";
}

TEST(ServerHealthTest, checks_that_pass_end_what_requests_found) {
  ServerHealth health({.path = "/", .failures = 1, .successes = 1}, 1h);
  EXPECT_EQ(health.not_reached(1s), Change::down);
  EXPECT_EQ(health.checked(true), Change::up);
  EXPECT_TRUE(health.up(2s));
}

TEST(ServerHealthTest, a_request_that_got_through_does_not_overrule_the_checks) {
  ServerHealth health({.path = "/", .failures = 1, .successes = 1}, 1h);
  EXPECT_EQ(health.checked(false), Change::down);
  EXPECT_EQ(health.reached(), Change::none);
  EXPECT_FALSE(health.up(2s));
}

Upstream named(const std::string& host, std::uint16_t port = 80) {
  Upstream upstream;
  upstream.name = "test";
  UpstreamServer server;
  server.host = host;
  server.port = port;
  upstream.servers.push_back(server);
  upstream.resolve_every = 1ms;
  return upstream;
}

// A log whose lines can be read. It has no name that another test could use.
struct LogFile {
  int fd = ::open(testing::TempDir().c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
  SystemClock clock;
  Log log{clock, fd, LogLevel::debug, LogFormat::json};
  http::FaultLog faults{log};

  ~LogFile() { ::close(fd); }
  std::string text() const {
    std::string all(1U << 20U, '\0');
    const ssize_t got = ::pread(fd, all.data(), all.size(), 0);
    all.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return all;
  }
  std::size_t count(std::string_view what) const {
    const std::string all = text();
    std::size_t times = 0;
    for (std::size_t at = all.find(what); at != std::string::npos; at = all.find(what, at + 1)) ++times;
    return times;
  }
};

// What a name server would say, changed by the test.
struct Names {
  std::mutex mutex;
  Result<http::Endpoints> answer;
  std::atomic<int> asked = 0;

  http::Resolver resolver() {
    return [this](const std::string&, const std::string&) {
      const std::scoped_lock lock(mutex);
      ++asked;
      return answer;
    };
  }
  void say(Result<http::Endpoints> next) {
    const std::scoped_lock lock(mutex);
    answer = std::move(next);
  }
};

std::unexpected<Error> cannot(std::string detail) {
  return std::unexpected(Error{.source = ErrorSource::system, .retryable = Retryable::no, .detail = std::move(detail)});
}

TEST(UpstreamResolverTest, a_server_that_moves_is_followed) {
  LogFile log;
  const http::Endpoint one = *http::resolve_listener("127.0.0.1:1");
  const http::Endpoint two = *http::resolve_listener("127.0.0.1:2");
  Names names{.mutex = {}, .answer = http::Endpoints{one, two}};
  const auto upstreams = Upstreams::open({named("a.test")}, names.resolver(), nullptr, log.log, log.faults);
  ASSERT_TRUE(upstreams.has_value());
  const http::Addresses& addresses = (**upstreams)[0].servers[0]->addresses;
  const std::uint64_t before = addresses.generation();
  names.say(http::Endpoints{two, one});
  const int asked = names.asked;
  wait_until([&] { return names.asked > asked + 2; });
  EXPECT_EQ(addresses.generation(), before) << "another order is no change";
  names.say(http::Endpoints{two});
  wait_until([&] { return addresses.generation() > before; });
  EXPECT_EQ(addresses.current()->size(), 1U);
  EXPECT_EQ(log.count("server addresses changed"), 1U);
}

TEST(UpstreamResolverTest, what_cannot_be_looked_up_stays_where_it_was_and_that_is_said_once) {
  LogFile log;
  Names names{.mutex = {}, .answer = http::Endpoints{*http::resolve_listener("127.0.0.1:1")}};
  const auto upstreams = Upstreams::open({named("a.test")}, names.resolver(), nullptr, log.log, log.faults);
  ASSERT_TRUE(upstreams.has_value());
  const http::Addresses& addresses = (**upstreams)[0].servers[0]->addresses;
  names.say(cannot("no such name"));
  int asked = names.asked;
  wait_until([&] { return names.asked > asked + 3; });
  names.say(http::Endpoints{});
  asked = names.asked;
  wait_until([&] { return names.asked > asked + 3; });
  EXPECT_EQ(addresses.current()->size(), 1U);
  EXPECT_EQ(log.count("server name cannot be resolved"), 1U);
}

TEST(UpstreamResolverTest, a_server_that_cannot_be_found_at_the_start_is_down_until_it_is_found) {
  LogFile log;
  Names names{.mutex = {}, .answer = cannot("no such name")};
  const auto upstreams = Upstreams::open({named("a.test")}, names.resolver(), nullptr, log.log, log.faults);
  ASSERT_TRUE(upstreams.has_value());
  const ServerState& server = *(**upstreams)[0].servers[0];
  EXPECT_FALSE(server.health.shown_up() || server.health.up(1s));
  wait_until([&] { return names.asked > 3; });
  EXPECT_EQ(log.count("server name cannot be resolved"), 1U) << "and it says so once";
  EXPECT_EQ(log.count("no such name"), 1U);
  names.say(http::Endpoints{});
  const int asked = names.asked;
  wait_until([&] { return names.asked > asked + 2; });
  EXPECT_FALSE(server.health.shown_up()) << "a name without an address is no better";
  names.say(http::Endpoints{*http::resolve_listener("127.0.0.1:1")});
  wait_until([&] { return server.health.shown_up(); });
  EXPECT_EQ(server.addresses.current()->size(), 1U);
  EXPECT_EQ(log.count("server name resolved"), 1U);
  names.say(cannot("no such name"));
  const int found = names.asked;
  wait_until([&] { return names.asked > found + 2; });
  EXPECT_TRUE(server.health.shown_up()) << "it stays where it was";
}

TEST(UpstreamResolverTest, a_socket_that_cannot_be_is_an_error_at_the_start) {
  LogFile log;
  Upstream upstream = named("");
  upstream.servers.front().socket = "/" + std::string(200, 'x');
  EXPECT_FALSE(Upstreams::open({upstream}, http::resolve, nullptr, log.log, log.faults).has_value());
}

TEST(UpstreamResolverTest, an_address_is_not_looked_up_again) {
  LogFile log;
  Names names{.mutex = {}, .answer = http::Endpoints{*http::resolve_listener("127.0.0.1:1")}};
  {
    const auto upstreams =
        Upstreams::open({named("127.0.0.1"), named("::1")}, names.resolver(), nullptr, log.log, log.faults);
    ASSERT_TRUE(upstreams.has_value());
  }
  EXPECT_EQ(names.asked, 2);
}

TEST(UpstreamResolverTest, a_look_up_that_hangs_holds_nobody_up) {
  LogFile log;
  std::promise<void> looking;
  std::promise<void> answer;
  auto calls = std::make_shared<std::atomic<int>>(0);
  std::promise<void> left;
  const http::Resolver resolver = [&, calls](const std::string&, const std::string&) -> Result<http::Endpoints> {
    if (calls->fetch_add(1) == 1) {
      looking.set_value();
      answer.get_future().wait();
      left.set_value();
    }
    return http::Endpoints{*http::resolve_listener("127.0.0.1:1")};
  };
  {
    const auto upstreams = Upstreams::open({named("a.test")}, resolver, nullptr, log.log, log.faults);
    ASSERT_TRUE(upstreams.has_value());
    looking.get_future().wait();
  }
  answer.set_value();
  left.get_future().wait();
}

// A server whose health is the test's to say.
struct Patient final : http::ServiceHandler {
  std::atomic<int> status = 200;
  std::atomic<int> asked = 0;
  std::mutex mutex;
  std::string target;
  std::string host;
  http::ServiceThread thread{*this, nullptr};

  Patient() { EXPECT_TRUE(thread.start("127.0.0.1:0").has_value()); }
  Task<http::ServiceResponse> handle(const http::ServiceRequest& request) override {
    {
      const std::scoped_lock lock(mutex);
      target = request.head.target;
      host = request.head.host;
    }
    ++asked;
    co_return http::ServiceResponse{.status = status};
  }
  std::uint16_t port() const {
    return static_cast<std::uint16_t>(std::stoi(thread.address().substr(thread.address().rfind(':') + 1)));
  }
};

TEST(UpstreamWatchTest, checks_take_a_server_out_and_back_in) {
  LogFile log;
  Patient patient;
  Upstream upstream = named("127.0.0.1", patient.port());
  upstream.base_path = "/base";
  upstream.health = {.path = "/health?deep", .interval = 1ms, .timeout = 20s, .failures = 2, .successes = 2};
  const auto upstreams = Upstreams::open({upstream}, http::resolve, nullptr, log.log, log.faults);
  ASSERT_TRUE(upstreams.has_value());
  const ServerHealth& health = (**upstreams)[0].servers[0]->health;
  wait_until([&] { return patient.asked > 2; });
  EXPECT_TRUE(health.shown_up());
  patient.status = 503;
  wait_until([&] { return !health.shown_up(); });
  wait_until([&] { return log.count("server is down") == 1; });
  patient.status = 302;
  wait_until([&] { return health.shown_up(); });
  wait_until([&] { return log.count("server is up again") == 1; });
  const std::scoped_lock lock(patient.mutex);
  EXPECT_EQ(patient.target, "/health?deep");
  EXPECT_EQ(patient.host, "127.0.0.1:" + std::to_string(patient.port()));
}

TEST(UpstreamWatchTest, a_server_that_is_not_there_or_says_nothing_is_down) {
  LogFile log;
  http::FakeServer silent;
  http::FakeServer gone;
  gone.stop();
  std::vector<Upstream> settings;
  for (const http::FakeServer* server : {&silent, &gone}) {
    const std::string text = server->endpoint().text();
    Upstream upstream = named("127.0.0.1", static_cast<std::uint16_t>(std::stoi(text.substr(text.rfind(':') + 1))));
    upstream.health = {.path = "/", .interval = 1ms, .timeout = 20ms, .failures = 2, .successes = 1};
    settings.push_back(upstream);
  }
  const auto upstreams = Upstreams::open(settings, http::resolve, nullptr, log.log, log.faults);
  ASSERT_TRUE(upstreams.has_value());
  for (std::size_t i = 0; i < 2; ++i) {
    wait_until([&] { return !(**upstreams)[i].servers[0]->health.shown_up(); });
  }
}

TEST(UpstreamWatchTest, it_ends_while_a_check_hangs) {
  LogFile log;
  http::FakeServer silent;
  const std::string text = silent.endpoint().text();
  Upstream upstream = named("127.0.0.1", static_cast<std::uint16_t>(std::stoi(text.substr(text.rfind(':') + 1))));
  upstream.health = {.path = "/", .interval = 1ms, .timeout = 1h};
  const auto upstreams = Upstreams::open({upstream}, http::resolve, nullptr, log.log, log.faults);
  ASSERT_TRUE(upstreams.has_value());
  silent.accept();  // the check has begun, and is not answered
}

}  // namespace upstream_state_test
}  // namespace once::gateway
