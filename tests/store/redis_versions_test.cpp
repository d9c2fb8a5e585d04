// Two versions of Once on one Redis: what the next one writes is read if it says so, and left alone if it does not.
#include <gmock/gmock.h>

#include "tests/store/redis_harness.hpp"

namespace once::redis_test {
namespace redis_versions_test {

using std::chrono::hours;
using testing::AllOf;
using testing::HasSubstr;

class RedisVersions : public RedisAlone {};

// The next version, which this one can run beside: it says in every record that version 3 is enough.
std::string as_written_by_the_next(std::string packed) {
  packed[0] = 4;
  packed[2] = static_cast<char>(packed[2] | 3 << 4);
  packed[3] = static_cast<char>(packed[3] | 8);  // something that only it knows
  return packed;
}

TEST_F(RedisVersions, a_newer_version_that_names_this_one_runs_beside_it) {
  const auto seen_by_the_next = [&](const OperationId& id) {
    const std::string left = peer().ask({"PTTL", key_of(id)});
    ASSERT_EQ(peer().ask({"SET", key_of(id), as_written_by_the_next(peer().ask({"GET", key_of(id)})), "PX", left}),
              "OK");
  };
  for (const State state : {State::succeeded, State::failed}) {
    const OperationId id = caller_.new_id();
    const Nonce nonce = caller_.new_nonce();
    ASSERT_EQ(caller_
                  .run({.verb = Verb::claim,
                        .id = id,
                        .nonce = nonce,
                        .fingerprint = request,
                        .terms = Caller::usual,
                        .tenant = "acme",
                        .route = "pay"})
                  .verdict,
              Verdict::execute);
    seen_by_the_next(id);
    EXPECT_EQ(caller_.claim(id, nonce).verdict, Verdict::execute) << "the same claim";
    EXPECT_EQ(caller_.claim(id, caller_.new_nonce()).verdict, Verdict::in_flight);
    EXPECT_EQ(caller_.renew(id, nonce).status, OpStatus::done);
    EXPECT_EQ(caller_.append(id, nonce, 0, "head").status, OpStatus::done);
    seen_by_the_next(id);
    EXPECT_EQ(caller_.append(id, nonce, 1, "one").status, OpStatus::done);
    EXPECT_EQ(caller_.read(id).chunks.size(), 2U);
    seen_by_the_next(id);
    EXPECT_EQ(caller_.finish(id, nonce, "said", state).status, OpStatus::done);
    seen_by_the_next(id);
    const Op looked = caller_.lookup(id);
    ASSERT_TRUE(looked.record.has_value()) << looked.error;
    EXPECT_EQ(looked.record->body_kept, BodyKept::yes);
    EXPECT_EQ(*looked.record->outcome, "said");
    const auto page = store_->search()->get(id);
    ASSERT_TRUE(page.has_value() && page->keys.size() == 1);
    EXPECT_EQ(page->keys.front().tenant, "acme");
    const Nonce second = caller_.new_nonce();
    const Op again = caller_.claim(id, second);
    EXPECT_EQ(again.verdict, state == State::succeeded ? Verdict::replay : Verdict::execute);
    if (state == State::succeeded) continue;
    seen_by_the_next(id);
    EXPECT_EQ(caller_.release(id, second).status, OpStatus::done);
    EXPECT_EQ(caller_.lookup(id).record->state, State::failed);
  }
}

TEST_F(RedisVersions, a_newer_version_that_does_not_is_left_alone_and_named) {
  Record record;
  record.state = State::started;
  record.nonce = caller_.new_nonce();
  record.expires_at = server_now() + hours(1);
  for (const int needed : {0, 4, 9}) {
    std::string value = packed(record, {}, 9);
    value[2] = static_cast<char>(needed << 4);
    const OperationId id = caller_.new_id();
    set(id, value);
    for (const Op& op : {caller_.claim(id, record.nonce), caller_.lookup(id), caller_.renew(id, record.nonce),
                         caller_.release(id, record.nonce), caller_.finish(id, record.nonce, "x"),
                         caller_.run({.verb = Verb::forget, .id = id, .nonce = record.nonce}),
                         caller_.append(id, record.nonce, 0, "x"), caller_.read(id)}) {
      EXPECT_EQ(op.status, OpStatus::failed);
      EXPECT_EQ(op.fault, StoreFault::refused);
      EXPECT_THAT(op.error, AllOf(HasSubstr("has version 9"), HasSubstr("this program supports 3: upgrade it")));
    }
    EXPECT_EQ(peer().ask({"GET", key_of(id)}), value);
  }
  EXPECT_EQ(caller_.claim(caller_.new_id(), caller_.new_nonce()).verdict, Verdict::execute) << "other keys go on";
}

TEST_F(RedisVersions, one_of_two_versions_before_is_left_alone_and_named) {
  Record record;
  record.expires_at = server_now() + hours(1);
  const std::string value = packed(record, {}, 1);
  const OperationId id = caller_.new_id();
  set(id, value);
  for (const Op& op : {caller_.claim(id, caller_.new_nonce()), caller_.lookup(id)}) {
    EXPECT_EQ(op.fault, StoreFault::refused);
    EXPECT_THAT(op.error, AllOf(HasSubstr("has version 1; this program supports 2 and 3"), HasSubstr("in between")));
  }
  EXPECT_EQ(peer().ask({"GET", key_of(id)}), value);
}

}  // namespace redis_versions_test
}  // namespace once::redis_test
