// Streams in Redis on one server: what waits for replicas, and what readers at other gateways are told.
#include <atomic>

#include "tests/store/redis_harness.hpp"

namespace once::redis_test {
namespace redis_streams_test {

using std::chrono::milliseconds;

class RedisStreams : public RedisAlone {};

TEST_F(RedisStreams, kept_chunks_are_told_when_the_replicas_have_them_or_had_them) {
  const auto store = open_store(contract::server_url(), {.wait_replicas = 1, .wait_timeout = milliseconds(20)});
  Caller caller(*store);
  const auto [id, nonce] = caller_.begin();
  ASSERT_EQ(caller_.append(id, nonce, 0, "head").status, OpStatus::done);
  ASSERT_EQ(caller_.finish_in_chunks(id, nonce, "final head").status, OpStatus::done);
  const Op early = caller.read(id);
  EXPECT_EQ(early.status, OpStatus::failed) << "told chunks that a failover could forget";
  EXPECT_TRUE(early.chunks.empty());
  // As after a WAIT that said so.
  ASSERT_EQ(peer().ask({"EVAL", "return redis.call('SETRANGE', KEYS[1], 20, '\2')", "1", key_of(id)}), "116");
  const std::string before = peer().info("commandstats", "cmdstat_wait");
  const Op op = caller.read(id);
  EXPECT_EQ(op.status, OpStatus::done) << op.error;
  EXPECT_EQ(op.chunks.size(), 1U);
  EXPECT_EQ(peer().info("commandstats", "cmdstat_wait"), before);
}

TEST_F(RedisStreams, who_reads_a_stream_is_told_of_new_chunks_and_of_its_end) {
  const std::string url = url_with("prefix=told_chunks:");
  std::atomic<int> others{0};  // told of an operation that nobody reads
  const OperationId id = caller_.new_id();
  const auto waiting = open_store(url);
  waiting->notify_of_ends([&](const OperationId& told_of) { others += told_of == id ? 0 : 1; });
  const auto working = open_store(url);
  Caller reader(*waiting);
  Caller worker(*working);
  ASSERT_TRUE(eventually([&] { return peer().ask({"PUBSUB", "NUMSUB", "told_chunks:ended"}).contains("\n1\n"); }));
  const auto told = [&](std::uint64_t times) { return eventually([&] { return waiting->stats().notified == times; }); };
  const Nonce nonce = worker.new_nonce();
  worker.claim(id, nonce);
  ASSERT_EQ(worker.append(id, nonce, 0, "head").status, OpStatus::done);
  ASSERT_EQ(reader.read(id).chunks.size(), 1U);
  ASSERT_EQ(worker.append(id, nonce, 1, "nobody waits for this").status, OpStatus::done);
  EXPECT_TRUE(reader.read_and_wait(id, 2).chunks.empty());
  ASSERT_EQ(worker.append(id, nonce, 2, "two").status, OpStatus::done);
  EXPECT_TRUE(told(1));
  ASSERT_EQ(worker.append(id, nonce, 2, "two").status, OpStatus::done) << "repeated: there is nothing new";
  ASSERT_EQ(worker.renew(id, nonce).status, OpStatus::done);
  ASSERT_EQ(worker.append(id, nonce, 3, "three").status, OpStatus::done);
  EXPECT_TRUE(told(2));
  ASSERT_EQ(worker.finish_in_chunks(id, nonce, "final head").status, OpStatus::done);
  EXPECT_TRUE(told(3));
  EXPECT_EQ(others, 0);
  EXPECT_EQ(reader.read(id).chunks.size(), 4U);
}

}  // namespace redis_streams_test
}  // namespace once::redis_test
