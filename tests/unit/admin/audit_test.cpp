#include "admin/audit.hpp"

#include <unistd.h>

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "core/json_tree.hpp"
#include "tests/unit/support/manual_clock.hpp"
#include "tests/unit/support/temporary_folder.hpp"

namespace once {
namespace {

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

TEST(TimeText, is_rfc_3339_with_milliseconds) {
  EXPECT_EQ(time_text(Time(Duration(1'763'225'643'007))), "2025-11-15T16:54:03.007Z");
}

}  // namespace
}  // namespace once
