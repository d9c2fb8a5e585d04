#include "admin/audit_thread.hpp"

#include <atomic>
#include <latch>
#include <memory>

#include <gtest/gtest.h>

#include "base/task.hpp"
#include "http/loop.hpp"

namespace once::admin::audit_thread_test {

using namespace std::chrono_literals;

struct Asked {
  http::Loop& loop;
  int left;

  Task<void> ask(AuditThread& thread, AuditThread::Job job, Result<void>& result) {
    result = co_await thread.run(std::move(job), loop);
    if (--left == 0) loop.stop();
  }
};

TEST(AuditThread, tells_what_the_job_said) {
  http::Loop loop;
  AuditThread thread(1h);
  Asked asked{.loop = loop, .left = 2};
  Result<void> good = std::unexpected(Error{});
  Result<void> bad;
  const AuditThread::Job fails = [] -> Result<void> { return std::unexpected(Error{.detail = "no room"}); };
  spawn(asked.ask(thread, [] { return Result<void>(); }, good));
  spawn(asked.ask(thread, fails, bad));
  loop.run();
  EXPECT_TRUE(good.has_value());
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().detail, "no room");
}

TEST(AuditThread, nobody_waits_for_ever_for_a_job_that_hangs) {
  const auto go = std::make_shared<std::latch>(1);
  const auto ran = std::make_shared<std::atomic<bool>>(false);
  {
    http::Loop loop;
    AuditThread thread(20ms);
    Asked asked{.loop = loop, .left = 2};
    Result<void> hangs;
    Result<void> behind;
    const AuditThread::Job waits = [go] {
      go->wait();
      return Result<void>();
    };
    const AuditThread::Job notes = [ran] {
      ran->store(true);
      return Result<void>();
    };
    spawn(asked.ask(thread, waits, hangs));
    spawn(asked.ask(thread, notes, behind));
    loop.run();
    EXPECT_FALSE(hangs.has_value());
    EXPECT_FALSE(behind.has_value());
  }
  go->count_down();
  EXPECT_FALSE(ran->load()) << "what nobody waits for any more is not begun";
}

}  // namespace once::admin::audit_thread_test
