#include "base/offload_threads.hpp"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace once::base {
namespace offload_threads_test {

class Counted final : public OffloadJob {
 public:
  explicit Counted(std::atomic<int>& count) : count_(count) {}
  void execute() override { ++executed_; }
  void executed() override { count_ += executed_; }

 private:
  std::atomic<int>& count_;
  int executed_ = 0;
};

TEST(OffloadThreadsTest, execute_every_job_of_every_thread) {
  std::atomic<int> count = 0;
  std::vector<std::vector<Counted>> jobs(4, std::vector<Counted>(100, Counted(count)));
  {
    OffloadThreads threads;
    std::vector<std::thread> senders;
    senders.reserve(jobs.size());
    for (std::vector<Counted>& mine : jobs) {
      senders.emplace_back([&threads, &mine] {
        for (Counted& job : mine) threads.add(job);
      });
    }
    for (std::thread& sender : senders) sender.join();
  }
  EXPECT_EQ(count, 400);
}

}  // namespace offload_threads_test
}  // namespace once::base
