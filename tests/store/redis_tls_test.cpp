// The Redis store over TLS, as a user with a password.
#include <filesystem>

#include <gmock/gmock.h>

#include "tests/store/redis_harness.hpp"

namespace once::redis_test {
namespace redis_tls_test {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  const std::size_t at = text.find(what);
  ONCE_ASSERT(at != std::string::npos);
  return text.replace(at, what.size(), with);
}

Error refused(const std::string& url) {
  const auto store = RedisStore::open(url, ServerSettings(), quiet_log());
  EXPECT_FALSE(store);
  if (store) return {};
  EXPECT_EQ(store.error().retryable, Retryable::no) << store.error().detail;
  EXPECT_THAT(store.error().detail, Not(HasSubstr("ss:word")));
  return store.error();
}

TEST(RedisTls, operations_work_by_name_and_by_address) {
  const std::string url = contract::server_url();
  for (const std::string& each : {url, replaced(url, "localhost", "127.0.0.1")}) {
    const auto store = open_store(each);
    Caller caller(*store);
    const OperationId id = caller.new_id();
    const Nonce nonce = caller.new_nonce();
    ASSERT_EQ(caller.claim(id, nonce).verdict, Verdict::execute);
    std::string large(3U << 20U, 'x');
    for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 31 + i / 251);
    ASSERT_EQ(caller.finish(id, nonce, large).status, OpStatus::done);
    const Op replay = caller.claim(id, caller.new_nonce());
    ASSERT_EQ(replay.verdict, Verdict::replay);
    EXPECT_TRUE(*replay.record->outcome == large);
    EXPECT_EQ(store->stats().connects, 1U) << "the link was kept";
  }
}

TEST(RedisTls, many_at_once_and_ends_that_are_told) {
  std::atomic<int> told{0};  // outlives the store, whose thread counts
  const auto store = open_store(contract::server_url());
  store->notify_of_ends([&](const OperationId&) { ++told; });
  Workload work(*store, 8);
  ASSERT_TRUE(eventually([&] { return work.done() > 300; }));
  work.stop();
  work.check();
  EXPECT_EQ(work.failed(), 0U);
  Caller caller(*store);
  EXPECT_TRUE(eventually([&] {
    const OperationId id = caller.new_id();
    const Nonce nonce = caller.new_nonce();
    caller.claim(id, nonce);
    caller.lookup(id, Waits::yes);
    caller.finish(id, nonce, "x");
    return told > 0;
  }));
}

TEST(RedisTls, a_server_that_cannot_prove_itself_is_refused) {
  const std::string url = contract::server_url();
  const std::string folder = std::filesystem::path(contract::from_environment("ONCE_TEST_CLOCK")).parent_path();
  const std::string ca = folder + "/ours.pem";
  const std::string stranger = folder + "/stranger.pem";
  EXPECT_THAT(refused(replaced(url, ca, stranger)).detail, HasSubstr("TLS handshake"));
  EXPECT_THAT(refused(replaced(url, "?ca=" + ca, "")).detail, HasSubstr("TLS handshake"));
  // An address as a name: the certificate is for other names.
  EXPECT_THAT(refused(replaced(url, "localhost", "127.1")).detail, AnyOf(HasSubstr("mismatch"), HasSubstr("TLS")));
  // Unless that is what was asked for.
  const auto store = open_store(replaced(url, "?ca=" + ca, "?insecure=1"));
  Caller caller(*store);
  EXPECT_EQ(caller.claim(caller.new_id(), caller.new_nonce()).verdict, Verdict::execute);
}

TEST(RedisTls, wrong_credentials_are_refused) {
  const std::string url = contract::server_url();
  EXPECT_THAT(refused(replaced(url, "gateway:", "somebody:")).detail, HasSubstr("login refused"));
  EXPECT_THAT(refused(replaced(url, "%2F1@", "%2F2@")).detail, HasSubstr("login refused"));
  EXPECT_THAT(refused(replaced(url, "gateway:p%40ss%3Aword%2F1@", "")).detail, HasSubstr("NOAUTH"));
}

TEST(RedisTls, keys_that_the_user_may_not_use_are_refused_with_a_reason) {
  const auto store = open_store(url_with("prefix=elsewhere:"));
  Caller caller(*store);
  const Op op = caller.claim(caller.new_id(), caller.new_nonce());
  EXPECT_EQ(op.status, OpStatus::failed);
  EXPECT_EQ(op.fault, StoreFault::refused);
  EXPECT_THAT(op.error, HasSubstr("NOPERM"));
}

TEST(RedisTls, plain_text_gets_nowhere) {
  const auto options = redis::parse_options(contract::server_url());
  const auto store = RedisStore::open("redis://localhost:" + std::to_string(options->hosts.front().port),
                                      {.connect_timeout = std::chrono::milliseconds(500)}, quiet_log());
  ASSERT_TRUE(store) << "it might be a server that is not ready";
  Caller caller(**store);
  EXPECT_EQ(caller.lookup(caller.new_id()).fault, StoreFault::refused);
}

}  // namespace redis_tls_test
}  // namespace once::redis_test
