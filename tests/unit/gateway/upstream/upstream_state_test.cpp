// When a server counts as up, how names are looked up again, and what the watch asks.
#include "gateway/upstream/upstream_state.hpp"

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
#include "tests/unit/support/log_file.hpp"

namespace once::gateway::upstream_state_test {

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

std::uint16_t port_of(const std::string& address) {
  return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

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

struct UpstreamResolverTest : testing::Test {
  Upstreams& open(const std::vector<Upstream>& settings, const http::Resolver& resolver) {
    auto opened = Upstreams::open(settings, resolver, nullptr, log.log, faults);
    EXPECT_TRUE(opened.has_value());
    upstreams = std::move(*opened);
    return *upstreams;
  }
  // A backend of one server, whose name is looked up in `names`.
  const ServerState& open() { return *open({named("a.test")}, names.resolver())[0].servers[0]; }
  // Until the name has been looked up so often again.
  void wait_for_lookups(int times) {
    const int asked = names.asked;
    wait_until([&] { return names.asked > asked + times; });
  }

  const http::Endpoint one = *http::resolve_listener("127.0.0.1:1");
  const http::Endpoint two = *http::resolve_listener("127.0.0.1:2");
  SystemClock clock;
  LogFile log{clock};
  http::FaultLog faults{log.log};
  Names names{.mutex = {}, .answer = http::Endpoints{one}};
  std::unique_ptr<Upstreams> upstreams;
};

TEST_F(UpstreamResolverTest, a_server_that_moves_is_followed) {
  names.say(http::Endpoints{one, two});
  const http::Addresses& addresses = open().addresses;
  const std::uint64_t before = addresses.generation();
  names.say(http::Endpoints{two, one});
  wait_for_lookups(2);
  EXPECT_EQ(addresses.generation(), before) << "another order is no change";
  names.say(http::Endpoints{two});
  wait_until([&] { return addresses.generation() > before; });
  EXPECT_EQ(addresses.current()->size(), 1U);
  EXPECT_EQ(log.count("server addresses changed"), 1U);
}

TEST_F(UpstreamResolverTest, what_cannot_be_looked_up_stays_where_it_was_and_that_is_said_once) {
  const http::Addresses& addresses = open().addresses;
  names.say(cannot("no such name"));
  wait_for_lookups(3);
  names.say(http::Endpoints{});
  wait_for_lookups(3);
  EXPECT_EQ(addresses.current()->size(), 1U);
  EXPECT_EQ(log.count("server name cannot be resolved"), 1U);
}

TEST_F(UpstreamResolverTest, a_server_that_cannot_be_found_at_the_start_is_down_until_it_is_found) {
  names.say(cannot("no such name"));
  const ServerState& server = open();
  EXPECT_FALSE(server.health.shown_up() || server.health.up(1s));
  wait_until([&] { return names.asked > 3; });
  EXPECT_EQ(log.count("server name cannot be resolved"), 1U) << "and it says so once";
  EXPECT_EQ(log.count("no such name"), 1U);
  names.say(http::Endpoints{});
  wait_for_lookups(2);
  EXPECT_FALSE(server.health.shown_up()) << "a name without an address is no better";
  names.say(http::Endpoints{one});
  wait_until([&] { return server.health.shown_up(); });
  EXPECT_EQ(server.addresses.current()->size(), 1U);
  EXPECT_EQ(log.count("server name resolved"), 1U);
  names.say(cannot("no such name"));
  wait_for_lookups(2);
  EXPECT_TRUE(server.health.shown_up()) << "it stays where it was";
}

TEST_F(UpstreamResolverTest, a_socket_that_cannot_be_is_an_error_at_the_start) {
  Upstream upstream = named("");
  upstream.servers.front().socket = "/" + std::string(200, 'x');
  EXPECT_FALSE(Upstreams::open({upstream}, http::resolve, nullptr, log.log, faults).has_value());
}

TEST_F(UpstreamResolverTest, an_address_is_not_looked_up_again) {
  open({named("127.0.0.1"), named("::1")}, names.resolver());
  upstreams.reset();
  EXPECT_EQ(names.asked, 2);
}

TEST_F(UpstreamResolverTest, a_look_up_that_hangs_holds_nobody_up) {
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
    return http::Endpoints{*http::resolve_listener("127.0.0.1:1")};  // the test may have ended
  };
  open({named("a.test")}, resolver);
  looking.get_future().wait();
  upstreams.reset();
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
  std::uint16_t port() const { return port_of(thread.address()); }
};

using UpstreamWatchTest = UpstreamResolverTest;

TEST_F(UpstreamWatchTest, checks_take_a_server_out_and_back_in) {
  Patient patient;
  Upstream upstream = named("127.0.0.1", patient.port());
  upstream.base_path = "/base";
  upstream.health = {.path = "/health?deep", .interval = 1ms, .timeout = 20s, .failures = 2, .successes = 2};
  const ServerHealth& health = open({upstream}, http::resolve)[0].servers[0]->health;
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

TEST_F(UpstreamWatchTest, a_server_that_is_not_there_or_says_nothing_is_down) {
  http::FakeServer silent;
  http::FakeServer gone;
  gone.stop();
  std::vector<Upstream> settings;
  for (const http::FakeServer* server : {&silent, &gone}) {
    Upstream upstream = named("127.0.0.1", port_of(server->endpoint().text()));
    upstream.health = {.path = "/", .interval = 1ms, .timeout = 20ms, .failures = 2, .successes = 1};
    settings.push_back(upstream);
  }
  open(settings, http::resolve);
  for (std::size_t i = 0; i < 2; ++i) wait_until([&] { return !(*upstreams)[i].servers[0]->health.shown_up(); });
}

TEST_F(UpstreamWatchTest, it_ends_while_a_check_hangs) {
  http::FakeServer silent;
  Upstream upstream = named("127.0.0.1", port_of(silent.endpoint().text()));
  upstream.health = {.path = "/", .interval = 1ms, .timeout = 1h};
  open({upstream}, http::resolve);
  silent.accept();  // the check has begun, and is not answered
}

}  // namespace once::gateway::upstream_state_test
