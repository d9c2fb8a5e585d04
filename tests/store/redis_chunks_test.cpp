// Chunks in Redis, on one server and on a cluster: the list beside the record, and when it goes.
#include <gmock/gmock.h>

#include "tests/store/redis_harness.hpp"

namespace once::redis_test {
namespace redis_chunks_test {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using testing::HasSubstr;

constexpr ClaimTerms taking_over{
    .on_unknown = OnUnknown::retry, .takeover_after = {}, .lease = minutes(10), .ttl = hours(1)};

class RedisChunks : public RedisTest {
 protected:
  using Begun = Caller::Begun;

  // Claimed, with two chunks.
  Begun begin(Caller& caller) {
    const Begun begun = caller.begin();
    EXPECT_EQ(caller.append(begun.id, begun.nonce, 0, "head").status, OpStatus::done);
    EXPECT_EQ(caller.append(begun.id, begun.nonce, 1, "one").status, OpStatus::done);
    return begun;
  }
  Begun begin() { return begin(caller_); }

  // By the server that has the key.
  std::string ask(std::vector<std::string> words) {
    for (Peer& peer : peers_) {
      const std::string said = peer.ask(words);
      if (!said.starts_with("MOVED")) return said;
    }
    return "nobody has it";
  }
  std::int64_t number(const std::vector<std::string>& words) { return std::stoll(ask(words)); }
  bool has_list(const OperationId& id, std::string_view prefix = "once:") {
    return ask({"EXISTS", list_of(id, prefix)}) == "1";
  }
  static std::string list_of(const OperationId& id, std::string_view prefix = "once:") {
    std::string list;
    redis::append_chunks_key(list, prefix, key_of(id, prefix));
    return list;
  }
};

TEST_F(RedisChunks, the_list_is_in_the_slot_of_its_record) {
  for (const std::string_view prefix : {"once:", "", "{app}:", "app{x}y:"}) {
    const OperationId id = caller_.new_id();
    EXPECT_EQ(redis::slot_of(list_of(id, prefix)), redis::slot_of(key_of(id, prefix))) << prefix;
    EXPECT_TRUE(list_of(id, prefix).starts_with(prefix)) << "a pattern of Redis' access lists fits both";
  }
}

TEST_F(RedisChunks, no_list_is_left_behind_by_what_ends_an_attempt) {
  for (const std::string prefix : {"once:", "", "{app}:", "app{x}y:"}) {
    const auto store = open_store(url_with("prefix=" + prefix));
    Caller caller(*store);
    const auto unknown = [&](const Begun& it) {
      EXPECT_EQ(caller.finish(it.id, it.nonce, "", State::unknown).status, OpStatus::done);
      EXPECT_TRUE(has_list(it.id, prefix)) << "it keeps what came of it";
    };
    struct Row {
      std::string_view ends;
      std::function<OpStatus(const Begun& it)> end;
    };
    for (const Row& row : std::vector<Row>{
             {"a success", [&](const Begun& it) { return caller.finish(it.id, it.nonce, "all").status; }},
             {"a failure", [&](const Begun& it) { return caller.finish(it.id, it.nonce, "no", State::failed).status; }},
             {"a release", [&](const Begun& it) { return caller.release(it.id, it.nonce).status; }},
             {"a takeover, and its release to the attempt before",
              [&](const Begun& it) {
                unknown(it);
                const Nonce second = caller.new_nonce();
                EXPECT_EQ(caller.claim(it.id, second, taking_over).verdict, Verdict::execute);
                EXPECT_FALSE(has_list(it.id, prefix));
                EXPECT_EQ(caller.append(it.id, second, 0, "again").status, OpStatus::done);
                return caller.release(it.id, second).status;
              }},
             {"an operator who resolves",
              [&](const Begun& it) {
                unknown(it);
                return caller.resolve(it, State::failed, State::unknown);
              }},
             {"an operator who forgets", [&](const Begun& it) {
                unknown(it);
                return caller.forget(it, State::unknown);
              }}}) {
      SCOPED_TRACE(testing::Message() << row.ends << ", prefix " << prefix);
      const Begun it = begin(caller);
      EXPECT_TRUE(has_list(it.id, prefix));
      EXPECT_EQ(row.end(it), OpStatus::done);
      EXPECT_FALSE(has_list(it.id, prefix));
    }
  }
}

TEST_F(RedisChunks, the_list_expires_with_its_record_and_never_before) {
  const auto expiries = [&](const OperationId& id) {
    return std::pair(number({"PEXPIRETIME", list_of(id)}), number({"PEXPIRETIME", key_of(id)}));
  };
  const Begun it = begin();
  const auto [list, record] = expiries(it.id);
  EXPECT_GT(list, 0);
  EXPECT_EQ(list, record);
  // A lease that outlasts the record makes both live longer.
  ClaimTerms long_lease = Caller::usual;
  long_lease.lease = hours(5);
  ASSERT_EQ(caller_.renew(it.id, it.nonce, long_lease).status, OpStatus::done);
  const auto [renewed_list, renewed] = expiries(it.id);
  EXPECT_GT(renewed, record);
  EXPECT_EQ(renewed_list, renewed);
  // So does an outcome that is kept for longer than the claim was.
  Op unknown{
      .verb = Verb::finish, .id = it.id, .nonce = it.nonce, .terms = {.ttl = hours(20)}, .final_state = State::unknown};
  ASSERT_EQ(caller_.run(unknown).status, OpStatus::done);
  const auto [kept_list, kept] = expiries(it.id);
  EXPECT_GT(kept, renewed);
  EXPECT_EQ(kept_list, kept);
}

// Also: the format, and what a version that does not know this one reads.
TEST_F(RedisChunks, a_body_that_stays_in_the_list_is_marked_in_the_record) {
  const Begun it = begin();
  const Op end = caller_.finish_in_chunks(it.id, it.nonce, "final head");
  ASSERT_EQ(end.status, OpStatus::done);
  ASSERT_TRUE(end.record.has_value());
  EXPECT_EQ(end.record->body_kept, BodyKept::in_chunks);
  const std::string bytes = ask({"GET", key_of(it.id)});
  std::string expected = packed(*end.record, "final head");
  expected[3] = 1 | 4;
  EXPECT_EQ(to_hex(bytes), to_hex(expected));
  EXPECT_EQ(bytes[2], 2);
  EXPECT_EQ(ask({"LRANGE", list_of(it.id), "1", "-1"}), "head\none\n");
}

TEST_F(RedisChunks, kept_chunks_go_when_the_record_expires_and_not_with_its_tombstone) {
  const Begun it{.id = caller_.new_id(), .nonce = caller_.new_nonce()};
  ClaimTerms remembered = Caller::usual;
  remembered.tombstone = hours(100);
  ASSERT_EQ(caller_.claim(it.id, it.nonce, remembered).verdict, Verdict::execute);
  ASSERT_EQ(caller_.append(it.id, it.nonce, 0, "head").status, OpStatus::done);
  ClaimTerms longer = Caller::usual;
  longer.ttl = hours(20);
  const Op end = caller_.finish_in_chunks(it.id, it.nonce, "final head", longer);
  ASSERT_EQ(end.status, OpStatus::done);
  const auto ms = [](Time time) { return time.time_since_epoch().count(); };
  EXPECT_EQ(number({"PEXPIRETIME", list_of(it.id)}), ms(end.record->expires_at));
  EXPECT_EQ(number({"PEXPIRETIME", key_of(it.id)}), ms(end.record->forget_at));
  EXPECT_GT(end.record->forget_at, end.record->expires_at);
}

// A Redis that evicts keys may take the list alone.
TEST_F(RedisChunks, a_success_whose_list_is_gone_is_told_without_chunks) {
  const Begun it = begin();
  ASSERT_EQ(caller_.finish_in_chunks(it.id, it.nonce, "final head").status, OpStatus::done);
  ASSERT_EQ(ask({"DEL", list_of(it.id)}), "1");
  const Op op = caller_.read(it.id);
  EXPECT_EQ(op.status, OpStatus::done);
  EXPECT_TRUE(op.chunks.empty());
  ASSERT_TRUE(op.record.has_value());
  EXPECT_EQ(op.record->body_kept, BodyKept::in_chunks);
  EXPECT_EQ(*op.record->outcome, "final head");
}

TEST_F(RedisChunks, the_list_of_a_success_is_left_only_if_its_body_is_in_it) {
  for (const BodyKept kept : {BodyKept::yes, BodyKept::no, BodyKept::in_chunks}) {
    const Begun it = begin();
    const Op end{.verb = Verb::finish,
                 .id = it.id,
                 .nonce = it.nonce,
                 .terms = Caller::usual,
                 .body_kept = kept,
                 .outcome = std::make_shared<const std::string>("x")};
    ASSERT_EQ(caller_.run(end).status, OpStatus::done);
    EXPECT_EQ(has_list(it.id), kept == BodyKept::in_chunks);
    ASSERT_EQ(caller_.forget(it, State::succeeded), OpStatus::done);
    EXPECT_FALSE(has_list(it.id));
  }
}

// As by a server that was not allowed to remove it, or by a version that does not know of it.
TEST_F(RedisChunks, a_list_that_was_left_behind_is_not_read_and_makes_room_for_the_next) {
  const Begun it = begin();
  const Nonce second = caller_.new_nonce();
  ASSERT_EQ(caller_.finish(it.id, it.nonce, "no", State::failed).status, OpStatus::done);
  ASSERT_EQ(caller_.claim(it.id, second, taking_over).verdict, Verdict::execute);
  ASSERT_EQ(ask({"RPUSH", list_of(it.id), std::string(it.nonce.view()), "old head", "old", "older"}), "4");
  EXPECT_TRUE(caller_.read(it.id).chunks.empty());
  EXPECT_EQ(caller_.append(it.id, second, 1, "one").status, OpStatus::failed) << "the first one is missing";
  EXPECT_EQ(caller_.append(it.id, second, 0, "new head").status, OpStatus::done);
  const Op op = caller_.read(it.id);
  ASSERT_EQ(op.chunks.size(), 1U);
  EXPECT_EQ(*op.chunks.front(), "new head");
}

TEST_F(RedisChunks, an_append_after_chunks_that_are_gone_is_refused) {
  const Begun it = begin();
  ASSERT_EQ(ask({"RPOP", list_of(it.id)}), "one");
  for (int repeat = 0; repeat < 2; ++repeat) {
    const Op op = caller_.append(it.id, it.nonce, 2, "two");
    EXPECT_EQ(op.status, OpStatus::failed);
    EXPECT_EQ(op.fault, StoreFault::no_chunks);
    EXPECT_THAT(op.error, HasSubstr("lost earlier chunks"));
  }
  EXPECT_EQ(caller_.read(it.id).chunks.size(), 1U);
  EXPECT_EQ(caller_.append(it.id, it.nonce, 1, "one").status, OpStatus::done);
  EXPECT_EQ(caller_.append(it.id, it.nonce, 2, "two").status, OpStatus::done);
}

TEST_F(RedisChunks, long_streams_are_read_in_parts_that_join) {
  const Begun it = begin();
  constexpr std::uint32_t count = 600;
  for (std::uint32_t i = 2; i < count; ++i) {
    ASSERT_EQ(
        caller_.append(it.id, it.nonce, i, std::string(i % 7 == 0 ? 900 : 9, static_cast<char>('a' + i % 26))).status,
        OpStatus::done);
  }
  for (const std::size_t most : {std::size_t{1}, std::size_t{1000}, std::size_t{20'000}, std::size_t{1} << 30U}) {
    std::uint32_t next = 0;
    unsigned reads = 0;
    while (next < count) {
      const Op op = caller_.read(it.id, next, most);
      ASSERT_FALSE(op.chunks.empty());
      std::size_t bytes = 0;
      for (const OutcomeBytes& chunk : op.chunks) {
        if (next > 1) ASSERT_EQ(chunk->front(), static_cast<char>('a' + next % 26)) << next;
        bytes += chunk->size();
        ++next;
      }
      if (op.chunks.size() > 1) EXPECT_LE(bytes, most);
      ++reads;
    }
    EXPECT_EQ(next, count);
    if (most == 1) EXPECT_EQ(reads, count);
    if (most > 1'000'000) EXPECT_EQ(reads, 1U);
  }
}

TEST_F(RedisChunks, operators_see_the_record_and_not_the_list) {
  const Begun it = begin();
  IdPrefix prefix;
  std::copy_n(it.id.bytes.begin(), prefix.bytes.size(), prefix.bytes.begin());
  const auto page = store_->search()->find(prefix);
  ASSERT_TRUE(page.has_value()) << page.error().detail;
  ASSERT_EQ(page->keys.size(), 1U);
  EXPECT_EQ(page->keys.front().id, it.id);
  std::string cursor;
  std::size_t seen = 0;
  do {
    const auto part = store_->search()->scan({}, cursor, 100);
    ASSERT_TRUE(part.has_value()) << part.error().detail;
    for (const KeyInfo& info : part->keys) seen += info.id == it.id ? 1 : 0;
    cursor = part->next;
  } while (!cursor.empty());
  EXPECT_EQ(seen, 1U);
}

}  // namespace redis_chunks_test
}  // namespace once::redis_test
