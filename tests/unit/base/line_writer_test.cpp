#include "base/line_writer.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temporary_folder.hpp"

namespace once::base::line_writer_test {

constexpr Duration patience = std::chrono::seconds(20);

class LineWriterTest : public testing::Test {
 protected:
  LineWriterTest() {
    error_log_ = Descriptor(::open(path("errors").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
    log_.emplace(clock_, error_log_.get(), LogLevel::info, LogFormat::json);
    writer_.emplace(*log_);
  }

  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  static std::vector<std::string> lines_of(std::istream& in) {
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  std::vector<std::string> lines_in(const std::string& name) const {
    std::ifstream file(path(name));
    return lines_of(file);
  }
  // The reading end of a pipe that the writer writes to; closed: it could not be made.
  static Descriptor open_pipe(LineWriter& writer) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
    Descriptor reading(ends[0]);
    const Descriptor writing(ends[1]);
    if (!writer.open(fmt::format("/proc/self/fd/{}", writing.get()), LogFormat::json)) return {};
    return reading;
  }
  static void wait_for_bytes(const Descriptor& pipe) {
    int waiting = 0;
    while (waiting == 0) ASSERT_EQ(::ioctl(pipe.get(), FIONREAD, &waiting), 0);
  }
  static void hand_over(LineWriter& writer, std::string lines) {
    const auto count = static_cast<std::size_t>(std::ranges::count(lines, '\n'));
    writer.hand_over(lines, count);
    EXPECT_TRUE(lines.empty());
  }

  const TemporaryFolder folder_;
  SystemClock clock_;
  Descriptor error_log_;
  std::optional<Log> log_;
  std::optional<LineWriter> writer_;
};

TEST_F(LineWriterTest, writes_everything_before_it_stops) {
  ASSERT_TRUE(writer_->open(path("access"), LogFormat::automatic));
  EXPECT_EQ(writer_->format(), LogFormat::json);
  constexpr int threads = 4;
  constexpr int each = 2000;
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([this, t] {
      for (int i = 0; i < each; ++i) hand_over(*writer_, fmt::format("{} {} first\n{} {} second\n", t, i, t, i));
    });
  }
  for (std::thread& worker : workers) worker.join();
  writer_->stop(patience);
  const auto lines = lines_in("access");
  ASSERT_EQ(lines.size(), std::size_t{2} * threads * each);
  std::array<int, threads> next{};
  for (std::size_t i = 0; i < lines.size(); i += 2) {
    const int t = lines[i][0] - '0';
    const int number = next.at(static_cast<std::size_t>(t))++;
    EXPECT_EQ(lines[i], fmt::format("{} {} first", t, number));
    EXPECT_EQ(lines[i + 1], fmt::format("{} {} second", t, number));
  }
  EXPECT_EQ(writer_->left_out(), 0U);
}

TEST_F(LineWriterTest, a_reader_that_takes_nothing_costs_lines_and_no_time) {
  const Descriptor reading = open_pipe(*writer_);
  ASSERT_TRUE(reading.open());
  const std::string line(999, 'x');
  constexpr std::size_t batch = 30;
  std::size_t handed_over = 0;
  while (writer_->left_out() == 0) {  // nobody reads: this ends when the buffer is full
    std::string lines;
    for (std::size_t i = 0; i < batch; ++i) lines += line + "\n";
    hand_over(*writer_, lines);
    handed_over += batch;
    ASSERT_LT(handed_over, 20'000U);
  }
  EXPECT_GT(handed_over * 1000, LineWriter::most_waiting);
  writer_->stop(Duration::zero());
  ::fcntl(reading.get(), F_SETFL, O_NONBLOCK);
  std::string all;
  std::array<char, 65536> room;
  for (ssize_t got = 0; (got = ::read(reading.get(), room.data(), room.size())) > 0;) {
    all.append(room.data(), static_cast<std::size_t>(got));
  }
  std::istringstream in(all);
  const auto lines = lines_of(in);
  ASSERT_FALSE(lines.empty());
  EXPECT_TRUE(all.ends_with('\n')) << "the last line is whole";
  for (const std::string& each : lines) EXPECT_EQ(each, line);
  EXPECT_GE(lines.size() + writer_->left_out(), handed_over) << "what was not written is counted";
  const auto said = lines_in("errors");
  ASSERT_FALSE(said.empty());
  EXPECT_TRUE(said.back().contains("access log lines left out")) << said.back();
}

TEST_F(LineWriterTest, a_line_longer_than_the_pipe_keeps_nobody_from_stopping) {
  const Descriptor reading = open_pipe(*writer_);
  ASSERT_TRUE(reading.open());
  hand_over(*writer_, std::string(std::size_t{1} << 20U, 'x') + "\n");
  wait_for_bytes(reading);
  writer_->stop(Duration::zero());
  EXPECT_EQ(writer_->left_out(), 1U);
}

TEST_F(LineWriterTest, a_reader_that_takes_nothing_keeps_no_line_from_the_next_file) {
  const Descriptor reading = open_pipe(*writer_);
  ASSERT_TRUE(reading.open());
  // A line that begins in the pipe and does not end there, and one after it.
  hand_over(*writer_, std::string(std::size_t{1} << 20U, 'x') + "\nwhole\n");
  wait_for_bytes(reading);
  ASSERT_TRUE(writer_->open(path("access"), LogFormat::json));
  hand_over(*writer_, "after\n");
  const auto deadline = monotonic_now() + patience;
  while (lines_in("access").size() < 2 && monotonic_now() < deadline) std::this_thread::yield();
  EXPECT_EQ(lines_in("access"), (std::vector<std::string>{"whole", "after"}));
  EXPECT_EQ(writer_->left_out(), 1U) << "the line that was begun";
  writer_->stop(patience);
}

TEST_F(LineWriterTest, a_full_disk_costs_lines_and_is_said) {
  ASSERT_TRUE(writer_->open("/dev/full", LogFormat::json));
  hand_over(*writer_, "a\nb\nc\n");
  writer_->stop(patience);
  EXPECT_EQ(writer_->left_out(), 3U);
  const auto said = lines_in("errors");
  ASSERT_EQ(said.size(), 1U);
  EXPECT_TRUE(said[0].contains(R"("count":3,"why":"No space left on device")")) << said[0];
}

TEST_F(LineWriterTest, a_file_that_was_renamed_is_left_when_it_is_opened_anew) {
  ASSERT_TRUE(writer_->open(path("access"), LogFormat::text));
  hand_over(*writer_, "one\n");
  while (lines_in("access").empty()) std::this_thread::yield();
  std::filesystem::rename(path("access"), path("access.1"));
  hand_over(*writer_, "two\n");
  while (lines_in("access.1").size() < 2) std::this_thread::yield();
  ASSERT_TRUE(writer_->reopen());
  hand_over(*writer_, "three\n");
  writer_->stop(patience);
  EXPECT_EQ(lines_in("access.1"), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(lines_in("access"), std::vector<std::string>{"three"});
}

TEST_F(LineWriterTest, a_file_that_cannot_be_opened_changes_nothing) {
  ASSERT_TRUE(writer_->open(path("access"), LogFormat::text));
  EXPECT_EQ(writer_->open(path("nowhere/access"), LogFormat::text).error(), "No such file or directory");
  hand_over(*writer_, "one\n");
  writer_->stop(patience);
  EXPECT_EQ(lines_in("access"), std::vector<std::string>{"one"});
  EXPECT_EQ(writer_->left_out(), 0U);
  hand_over(*writer_, "late\n");
  EXPECT_EQ(writer_->left_out(), 1U) << "after the end";
}

}  // namespace once::base::line_writer_test
