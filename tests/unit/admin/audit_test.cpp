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

namespace once::admin::audit_test {

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct AuditTest : testing::Test {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/audit.log";
  const ManualClock clock;
  const Log log{clock, STDERR_FILENO, LogLevel::error, LogFormat::json};
  const Audit audit{path, clock, log};
};

TEST_F(AuditTest, appends_a_line_of_json_for_each_entry) {
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

TEST_F(AuditTest, says_so_when_the_file_cannot_be_written) {
  EXPECT_FALSE(Audit("/nowhere/at/all", clock, log).append({}).has_value());
  EXPECT_FALSE(Audit("/dev/full", clock, log).append({}).has_value());
  EXPECT_TRUE(Audit("", clock, log).append({}).has_value());
}

TEST_F(AuditTest, a_line_that_was_cut_off_stays_alone) {
  std::ofstream(path) << "{\"action\":\"rel";
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

TEST_F(AuditTest, a_pipe_is_no_audit_log) {
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(audit.check().has_value());
  EXPECT_FALSE(audit.append({}).has_value()) << "and it does not hang";
  EXPECT_FALSE(Audit("/dev/null", clock, log).check().has_value());
  EXPECT_TRUE(Audit(folder.path() + "/none", clock, log).check().has_value());
  EXPECT_TRUE(Audit("", clock, log).check().has_value());
}

TEST_F(AuditTest, is_on_the_log_whatever_its_level_and_cut_as_in_the_file) {
  const std::string told = folder.path() + "/log";
  const Descriptor file(::open(told.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const Log silent(clock, file.get(), LogLevel::off, LogFormat::json);
  const Audit logged(path, clock, silent);
  const AuditEntry entry{.action = "forget", .reason = std::string(999, 'x') + "\u00e9 and more"};
  logged.log(entry);
  ASSERT_TRUE(logged.append(entry).has_value());
  for (const std::string& each : {told, path}) {
    const auto line = JsonTree::parse(content_of(each));
    ASSERT_TRUE(line.has_value()) << each;
    EXPECT_EQ(*line->find("action")->string(), "forget");
    EXPECT_EQ(*line->find("reason")->string(), std::string(999, 'x'));
  }
}

}  // namespace once::admin::audit_test
