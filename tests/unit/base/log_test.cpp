#include "base/log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <limits>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "tests/unit/support/manual_clock.hpp"

namespace once::base::log_test {

using namespace std::literals;

// What is logged, read back from a pipe once the log is done with.
class LogTest : public testing::Test {
 protected:
  LogTest() {
    clock_.set(Time(std::chrono::milliseconds(1'700'000'000'042)));
    EXPECT_EQ(::pipe(ends_.data()), 0);
  }
  ~LogTest() override {
    ::close(ends_[0]);
    if (ends_[1] >= 0) ::close(ends_[1]);
  }

  int output() const { return ends_[1]; }

  std::string written() {
    ::close(std::exchange(ends_[1], -1));
    std::string all;
    std::array<char, 4096> part{};
    for (ssize_t got = 0; (got = ::read(ends_[0], part.data(), part.size())) > 0;) {
      all.append(part.data(), static_cast<std::size_t>(got));
    }
    return all;
  }

  ManualClock clock_;
  std::array<int, 2> ends_{};
};

TEST_F(LogTest, json_line_has_time_level_message_and_fields) {
  const Log log(clock_, output(), LogLevel::info, LogFormat::json);
  log.info("listening", {{"address", "127.0.0.1:8080"},
                         {"threads", 2},
                         {"bytes", std::size_t{7}},
                         {"ratio", 0.5},
                         {"tls", false},
                         {"status", std::uint16_t{200}}});
  EXPECT_EQ(written(),
            R"({"time":"2023-11-14T22:13:20.042Z","level":"info","message":"listening","address":"127.0.0.1:8080",)"
            R"("threads":2,"bytes":7,"ratio":0.5,"tls":false,"status":200})"
            "\n");
}

TEST_F(LogTest, text_line) {
  const Log log(clock_, output(), LogLevel::debug, LogFormat::text);
  log.warn("store slow", {{"store", "memory:"}, {"after", "1 s"}, {"why", ""}, {"tries", 3}});
  EXPECT_EQ(written(), "2023-11-14T22:13:20.042Z warn  store slow store=memory: after=\"1 s\" why=\"\" tries=3\n");
}

TEST_F(LogTest, automatic_is_json_when_not_a_terminal) {
  const Log log(clock_, output(), LogLevel::info, LogFormat::automatic);
  log.error("x");
  EXPECT_TRUE(written().starts_with('{'));
}

TEST_F(LogTest, lower_levels_are_silent) {
  const Log log(clock_, output(), LogLevel::warn, LogFormat::text);
  log.debug("no");
  log.info("no");
  EXPECT_FALSE(log.enabled(LogLevel::info));
  log.warn("yes");
  log.error("yes");
  const std::string all = written();
  EXPECT_EQ(split(all, '\n').size(), 3U) << all;
}

TEST_F(LogTest, off_is_silent) {
  const Log log(clock_, output(), LogLevel::off, LogFormat::text);
  log.error("no");
  EXPECT_EQ(written(), "");
}

TEST_F(LogTest, json_stays_valid_for_any_bytes) {
  const Log log(clock_, output(), LogLevel::info, LogFormat::json);
  log.info("m", {{"v", "a\"b\\c\n\t\x01\x7f\0\xff\xc3\xa9\xed\xa0\x80z"sv}});
  EXPECT_NE(written().find(R"("v":"a\"b\\c\n\t\u0001\u007f\u0000\ufffdé\ufffd\ufffd\ufffdz"})"), std::string::npos);
}

TEST_F(LogTest, json_knows_no_infinity) {
  const Log log(clock_, output(), LogLevel::info, LogFormat::json);
  log.info("m", {{"v", std::numeric_limits<double>::infinity()}});
  EXPECT_NE(written().find(R"("v":null})"), std::string::npos);
}

TEST_F(LogTest, text_cannot_be_forged) {
  const Log log(clock_, output(), LogLevel::info, LogFormat::text);
  log.info("a\nb", {{"path", "/x\r\n2023-11-14T22:13:20.042Z error fake"},
                    {"escape", "\x1b[31m"},
                    {"quote", "a\" level=\"error"},
                    {"c1", "\xc2\x9b"},
                    {"rtl", "\xe2\x80\xae"},
                    {"bad", "\xff"}});
  EXPECT_EQ(written(),
            "2023-11-14T22:13:20.042Z info  a\\nb path=\"/x\\r\\n2023-11-14T22:13:20.042Z error fake\" "
            "escape=\"\\x1b[31m\" quote=\"a\\\" level=\\\"error\" c1=\"\\xc2\\x9b\" "
            "rtl=\"\\xe2\\x80\\xae\" bad=\"\\xff\"\n");
}

TEST_F(LogTest, long_values_are_cut_between_characters) {
  const Log log(clock_, output(), LogLevel::info, LogFormat::json);
  std::string value(Log::max_value - 1, 'a');
  value += "é and more";
  log.info("m", {{"v", value}});
  EXPECT_NE(written().find("\"v\":\"" + std::string(Log::max_value - 1, 'a') + "…\"}"), std::string::npos);
}

TEST_F(LogTest, lines_of_threads_do_not_mix) {
  constexpr int lines = 40;
  const Log log(clock_, output(), LogLevel::info, LogFormat::text);
  std::string all;
  {
    std::vector<std::jthread> threads;
    for (const char letter : {'a', 'b', 'c'}) {
      threads.emplace_back([&log, letter] {
        const std::string value(200, letter);
        for (int i = 0; i < lines; ++i) log.info("m", {{"v", value}});
      });
    }
  }
  all = written();
  const auto parts = split(all, '\n');
  ASSERT_EQ(parts.size(), 3U * lines + 1);
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    const std::string_view value = parts[i].substr(parts[i].find("v=") + 2);
    EXPECT_EQ(value, std::string(200, value.front()));
  }
}

// How many lines have this message.
std::size_t lines_of(std::string_view all, std::string_view message) {
  std::size_t count = 0;
  for (const std::string_view line : split(all, '\n')) count += line.contains(message) ? 1 : 0;
  return count;
}

TEST_F(LogTest, repeated_errors_are_limited_and_counted) {
  {
    const Log log(clock_, output(), LogLevel::info, LogFormat::text);
    for (int i = 0; i < 1000; ++i) log.error("claim failed", {{"request", i}});
    log.warn("server is down");
    clock_.advance(1s);
    log.error("claim failed", {{"request", 1000}});
  }
  const std::string all = written();
  EXPECT_EQ(lines_of(all, "error claim failed"), Log::lines_per_second + 1) << all;
  EXPECT_EQ(lines_of(all, "server is down"), 1U);
  EXPECT_EQ(lines_of(all, "error lines left out of=\"claim failed\" count=990"), 1U) << all;
  EXPECT_LT(all.find("count=990"), all.find("request=1000"));
}

TEST_F(LogTest, last_lines_left_out_are_told) {
  {
    const Log log(clock_, output(), LogLevel::info, LogFormat::text);
    for (int i = 0; i < 15; ++i) log.warn("now and then");
    log.report_left_out();
    clock_.advance(1s);
    log.report_left_out();
    log.report_left_out();
    for (int i = 0; i < 13; ++i) log.warn("until the end");
  }
  const std::string all = written();
  EXPECT_EQ(lines_of(all, "of=\"now and then\" count=5"), 1U) << all;
  EXPECT_EQ(lines_of(all, "of=\"until the end\" count=3"), 1U) << all;
}

TEST_F(LogTest, clock_set_back_does_not_silence) {
  const Log log(clock_, output(), LogLevel::info, LogFormat::text);
  for (int i = 0; i < 20; ++i) log.error("x");
  clock_.advance(-1h);
  log.error("x", {{"after", true}});
  EXPECT_EQ(lines_of(written(), "after=true"), 1U);
}

TEST_F(LogTest, a_reader_that_takes_nothing_costs_lines_and_no_time) {
  const std::string value(1500, 'x');
  std::string taken(std::size_t{1} << 20U, '\0');
  constexpr std::size_t lines = 200;  // several times what the pipe holds
  const Log log(clock_, output(), LogLevel::info, LogFormat::text);
  for (std::size_t i = 0; i < lines; ++i) log.info("before", {{"v", value}});
  ASSERT_EQ(::fcntl(ends_[0], F_SETFL, O_NONBLOCK), 0);
  const ssize_t got = ::read(ends_[0], taken.data(), taken.size());
  ASSERT_GT(got, 0);
  taken.resize(static_cast<std::size_t>(got));
  EXPECT_TRUE(taken.ends_with("x\n")) << "lines are whole";
  log.info("after");
  EXPECT_EQ(::fcntl(output(), F_GETFL) & O_NONBLOCK, 0) << "others have the same pipe";
  const std::string rest = written();
  const std::size_t left_out = lines - lines_of(taken, "info  before");
  EXPECT_GT(left_out, 0U);
  EXPECT_TRUE(rest.contains(fmt::format("warn  log lines left out count={}\n", left_out))) << rest;
  EXPECT_LT(rest.find("left out"), rest.find("info  after"));
}

TEST_F(LogTest, a_line_of_which_a_part_fits_keeps_a_line_of_its_own) {
  const std::string value(Log::max_value, 'x');
  std::string taken(std::size_t{1} << 20U, '\0');
  const Log log(clock_, output(), LogLevel::info, LogFormat::text);
  // Longer than what a pipe takes at once; three of its four parts fit.
  ASSERT_EQ(::fcntl(output(), F_SETPIPE_SZ, 4096 * 4), 4096 * 4);
  log.info("small");
  log.info("long", {{"a", value}, {"b", value}, {"c", value}, {"d", value}, {"e", value}, {"f", value}, {"g", value}});
  ASSERT_EQ(::fcntl(ends_[0], F_SETFL, O_NONBLOCK), 0);
  const ssize_t got = ::read(ends_[0], taken.data(), taken.size());
  ASSERT_GT(got, 4096);
  log.report_left_out();
  const std::string rest = written();
  EXPECT_TRUE(rest.starts_with("\n")) << rest;
  EXPECT_TRUE(rest.contains("warn  log lines left out count=1\n")) << rest;
}

TEST_F(LogTest, access_and_audit_lines_are_not_limited) {
  const Log log(clock_, output(), LogLevel::info, LogFormat::text);
  for (int i = 0; i < 50; ++i) log.info("request");
  for (int i = 0; i < 50; ++i) log.always("audit");
  const std::string all = written();
  EXPECT_EQ(lines_of(all, "request"), 50U);
  EXPECT_EQ(lines_of(all, "audit"), 50U);
}

}  // namespace once::base::log_test
