#include "base/offload_threads.hpp"

#include <atomic>
#include <latch>
#include <list>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace once::base::offload_threads_test {

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

// Keeps a thread until it may go on.
class Held final : public OffloadJob {
 public:
  void execute() override {
    began.count_down();
    may_end.wait();
  }
  void executed() override {}

  std::latch began{1};
  std::latch may_end{1};
};

// Its owner is the first letter.
class Noted final : public OffloadJob {
 public:
  Noted(std::string_view name, std::vector<std::string_view>& order, std::latch& done)
      : OffloadJob(name.substr(0, 1)), name_(name), order_(order), done_(done) {}
  void execute() override { order_.push_back(name_); }
  void executed() override { done_.count_down(); }

 private:
  std::string_view name_;
  std::vector<std::string_view>& order_;
  std::latch& done_;
};

TEST(OffloadThreadsTest, owners_take_turns) {
  std::vector<std::string_view> order;
  std::latch done(6);
  Held first;
  Held second;
  std::list<Noted> jobs;
  for (const std::string_view name : {"a1", "a2", "a3", "b1", "c1", "b2"}) jobs.emplace_back(name, order, done);
  {
    OffloadThreads threads;
    threads.add(first);
    threads.add(second);
    first.began.wait();
    second.began.wait();
    for (Noted& job : jobs) threads.add(job);
    first.may_end.count_down();  // the other thread stays where it is
    done.wait();
    second.may_end.count_down();
  }
  EXPECT_EQ(order, (std::vector<std::string_view>{"a1", "b1", "c1", "a2", "b2", "a3"}));
}

}  // namespace once::base::offload_threads_test
