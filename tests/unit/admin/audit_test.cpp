#include "admin/audit.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "core/json_tree.hpp"
#include "tests/unit/support/manual_clock.hpp"
#include "tests/unit/support/temporary_folder.hpp"

namespace once::admin {
namespace audit_test {

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Audit, appends_a_line_of_json_for_each_entry) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/audit.log";
  const ManualClock clock;
  const Log log(clock, STDERR_FILENO, LogLevel::error, LogFormat::json);
  const Audit audit(path, clock, log);
  ASSERT_TRUE(audit.append({.action = "release", .reason = "say \"why\"\n{}", .result = "begun"}).has_value());
  ASSERT_TRUE(audit.append({.action = "release", .result = "done"}).has_value());
  std::istringstream lines(content_of(path));
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const auto first = JsonTree::parse(line);
  ASSERT_TRUE(first.has_value()) << line;
  EXPECT_EQ(*first->find("reason")->string(), "say \"why\"\n{}");
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_TRUE(line.contains("\"result\":\"done\"")) << line;
  EXPECT_FALSE(std::getline(lines, line));
}

TEST(Audit, says_so_when_the_file_cannot_be_written) {
  const ManualClock clock;
  const Log log(clock, STDERR_FILENO, LogLevel::error, LogFormat::json);
  EXPECT_FALSE(Audit("/nowhere/at/all", clock, log).append({}).has_value());
  EXPECT_FALSE(Audit("/dev/full", clock, log).append({}).has_value());
  EXPECT_TRUE(Audit("", clock, log).append({}).has_value());
}

TEST(Audit, a_line_that_was_cut_off_stays_alone) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/audit.log";
  std::ofstream(path) << "{\"action\":\"rel";
  const ManualClock clock;
  const Log log(clock, STDERR_FILENO, LogLevel::error, LogFormat::json);
  const Audit audit(path, clock, log);
  ASSERT_TRUE(audit.append({.action = "forget"}).has_value());
  ASSERT_TRUE(audit.append({.action = "release"}).has_value());
  std::istringstream lines(content_of(path));
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line, "{\"action\":\"rel");
  for (const std::string_view action : {"forget", "release"}) {
    ASSERT_TRUE(std::getline(lines, line));
    const auto entry = JsonTree::parse(line);
    ASSERT_TRUE(entry.has_value()) << line;
    EXPECT_EQ(*entry->find("action")->string(), action);
  }
  EXPECT_FALSE(std::getline(lines, line));
}

TEST(Audit, a_pipe_is_no_audit_log) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const ManualClock clock;
  const Log log(clock, STDERR_FILENO, LogLevel::error, LogFormat::json);
  EXPECT_FALSE(Audit(path, clock, log).check().has_value());
  EXPECT_FALSE(Audit(path, clock, log).append({}).has_value()) << "and it does not hang";
  EXPECT_FALSE(Audit("/dev/null", clock, log).check().has_value());
  EXPECT_TRUE(Audit(folder.path() + "/none", clock, log).check().has_value());
  EXPECT_TRUE(Audit("", clock, log).check().has_value());
}

TEST(Audit, is_on_the_log_whatever_its_level_and_cut_as_in_the_file) {
  const TemporaryFolder folder;
  const std::string told = folder.path() + "/log";
  const ManualClock clock;
  const Descriptor file(::open(told.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const Log log(clock, file.get(), LogLevel::off, LogFormat::json);
  const std::string path = folder.path() + "/audit.log";
  const Audit audit(path, clock, log);
  const AuditEntry entry{.action = "forget", .reason = std::string(999, 'x') + "\u00e9 and more"};
  audit.log(entry);
  ASSERT_TRUE(audit.append(entry).has_value());
  for (const std::string& each : {told, path}) {
    const auto line = JsonTree::parse(content_of(each));
    ASSERT_TRUE(line.has_value()) << each;
    EXPECT_EQ(*line->find("action")->string(), "forget");
    EXPECT_EQ(*line->find("reason")->string(), std::string(999, 'x'));
  }
}

}  // namespace audit_test
}  // namespace once::admin
