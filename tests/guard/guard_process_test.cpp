// What a guard does to the process around it: forks and signals.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <once/guard.hpp>

#include "tests/unit/support/temporary_folder.hpp"

namespace once::guard::guard_process_test {

using namespace std::chrono_literals;

constexpr unsigned patience_seconds = 60;  // for a child that hangs

// The status that a child ends with, which does `body` and then exits as programs do.
int exit_status_of(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(patience_seconds);
    std::exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

class GuardInChild : public testing::TestWithParam<const char*> {
 protected:
  std::string store() const {
    const std::string name = GetParam();
    return name == "journal" ? "journal:" + folder_.path() : name;
  }

  support::TemporaryFolder folder_;
};

TEST_P(GuardInChild, child_that_never_touches_the_guard_exits) {
  // In a process of its own, whose exit() ends a static guard in parent and child.
  const int status = exit_status_of([this] {
    static auto guard = Guard::open({.store = store(), .secret = "0123456789abcdef"});
    static auto claimed = guard->claim({.scope = "s", .key = "k"});
    if (!claimed.claim) return 3;
    return exit_status_of([] { return 0; }) == 0 ? 0 : 4;
  });
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_P(GuardInChild, calls_in_a_child_say_that_it_was_forked) {
  auto guard = Guard::open({.store = store(), .secret = "0123456789abcdef"});
  ASSERT_TRUE(guard.has_value()) << guard.error().detail;
  const Request request{.scope = "s", .key = "k"};
  auto claimed = guard->claim(request);
  const int status = exit_status_of([&] {
    const auto run = guard->run({.scope = "s", .key = "l"}, [] { return std::string("child"); });
    if (run.reason != Reason::forked || !run.detail.contains("fork()")) return 3;
    if (guard->claim(request).outcome.reason != Reason::forked) return 4;
    Reason told = Reason::none;
    guard->claim_async(request, [&](const Claimed& async) { told = async.outcome.reason; });
    if (told != Reason::forked) return 11;
    if (guard->ping()) return 12;
    if (guard->look(request)->reason != Reason::forked) return 5;
    if (claimed.claim->release().status != EndStatus::forked) return 6;
    if (claimed.claim->fail().status != EndStatus::forked) return 7;
    if (claimed.claim->succeed("1").reason != Reason::forked) return 8;
    if (claimed.claim->recorded().reason != Reason::forked) return 9;
    claimed.claim.reset();
    auto own = Guard::open({.secret = "0123456789abcdef"});
    *guard = std::move(*own);  // and the old one is gone
    return guard->run(request, [] { return std::string("child"); }).succeeded() ? 0 : 10;
  });
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(claimed.claim->succeed("1").succeeded()) << "the parent goes on";
}

TEST_P(GuardInChild, work_that_forks_and_comes_back_in_the_child_records_nothing_there) {
  auto guard = Guard::open({.store = store(), .secret = "0123456789abcdef"});
  pid_t child = -1;
  const auto outcome = guard->run({.scope = "s", .key = "k"}, [&] {
    child = ::fork();
    if (child == 0) ::alarm(patience_seconds);
    return std::string(child == 0 ? "child" : "parent");
  });
  if (child == 0) std::_Exit(outcome.reason == Reason::forked ? 0 : 3);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(outcome.value, "parent");
}

INSTANTIATE_TEST_SUITE_P(Stores, GuardInChild, testing::Values("memory:", "journal"),
                         [](const auto& each) { return std::string(each.param).substr(0, 6); });

TEST(GuardAndSignals, no_store_changes_what_sigpipe_does) {
  const auto disposition = [] {
    struct sigaction now{};
    ::sigaction(SIGPIPE, nullptr, &now);
    return now.sa_handler;
  };
  ASSERT_EQ(disposition(), SIG_DFL);
  for (const char* store : {"mysql://nobody@127.0.0.1:1/nothing", "postgres://nobody@127.0.0.1:1/nothing",
                            "redis://127.0.0.1:1", "memory:"}) {
    auto guard = Guard::open({.store = store, .secret = "0123456789abcdef", .logging = Logging::off});
    if (guard) std::ignore = guard->look({.scope = "s", .key = "k"});
    EXPECT_EQ(disposition(), SIG_DFL) << store;
  }
}

// Of every thread but this one.
std::vector<std::uint64_t> blocked_signals() {
  std::vector<std::uint64_t> all;
  const std::string own = std::to_string(::gettid());
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string line; task.path().filename() != own && std::getline(status, line);) {
      if (line.starts_with("SigBlk:")) all.push_back(std::stoull(line.substr(8), nullptr, 16));
    }
  }
  return all;
}

TEST(GuardAndSignals, its_threads_take_none) {
  const support::TemporaryFolder folder;
  auto guard = Guard::open({.store = "journal:" + folder.path(), .secret = "0123456789abcdef"});
  ASSERT_TRUE(guard.has_value()) << guard.error().detail;
  EXPECT_TRUE(guard->run({.scope = "s", .key = "k"}, [] { return std::string("v"); }).succeeded());
  Claimed held = guard->claim({.scope = "s", .key = "l"});  // somebody renews it
  std::promise<void> called;
  guard->claim_async({.scope = "s", .key = "m"}, [&](const Claimed&) { called.set_value(); });
  called.get_future().get();
  const auto blocked = blocked_signals();
  EXPECT_GE(blocked.size(), 4U);
  for (const int each : {SIGINT, SIGTERM, SIGCHLD, SIGALRM, SIGPIPE, SIGUSR1, SIGPROF}) {
    for (const std::uint64_t mask : blocked) EXPECT_NE(mask & (std::uint64_t{1} << (each - 1)), 0U) << each;
  }
}

}  // namespace once::guard::guard_process_test
