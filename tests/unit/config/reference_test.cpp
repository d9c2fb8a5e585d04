#include "config/reference.hpp"

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "config/json_schema.hpp"
#include "config/load.hpp"
#include "config/settings.hpp"
#include "core/dialect.hpp"

namespace once::config::reference_test {

// Every value of a table as text: two targets are alike if these are.
template <class Target>
std::string all_values(const Settings<Target>& table, const Target& target) {
  std::string all;
  for (const Setting<Target>& setting : table) {
    all += std::string(setting.name) + " = " + fmt::format("{}", fmt::join(setting.get(target), ", ")) + "\n";
  }
  return all;
}

template <class Target>
void every_setting_is_described_and_reads_its_own_default(const Settings<Target>& table, const Target& defaults) {
  for (const Setting<Target>& setting : table) {
    EXPECT_FALSE(setting.name.empty());
    EXPECT_FALSE(setting.expected.empty()) << setting.name;
    EXPECT_TRUE(setting.help.ends_with('.')) << setting.name;
    EXPECT_FALSE(setting.help.contains('|')) << setting.name << ": would break the table";
    if (setting.shape == Shape::map) continue;
    const std::string text = show_values(setting.shape, setting.get(defaults));
    Target target = defaults;
    const auto done = setting.set(target, read_values(setting.shape, text));
    ASSERT_TRUE(done.has_value()) << setting.name << ": " << done.error();
    EXPECT_EQ(all_values(table, target), all_values(table, defaults)) << setting.name;
    EXPECT_EQ(std::ranges::count(table, setting.name, &Setting<Target>::name), 1) << setting.name;
  }
}

TEST(ConfigTables, every_setting_is_described_and_reads_its_own_default) {
  every_setting_is_described_and_reads_its_own_default(process_settings(), builtin_config());
  every_setting_is_described_and_reads_its_own_default(policy_settings(), builtin_policy());
  every_setting_is_described_and_reads_its_own_default(route_settings(), Route());
  Upstream upstream;  // one without servers is none
  upstream.servers.emplace_back().host = "a";
  every_setting_is_described_and_reads_its_own_default(upstream_settings(), upstream);
}

TEST(ConfigTables, everything_with_a_size_or_a_time_has_limits) {
  const auto check = [](const auto& table) {
    for (const auto& setting : table) {
      const std::string& expected = setting.expected;
      const bool measured =
          expected.contains("duration") || expected.contains("size") || expected.contains("whole number");
      EXPECT_EQ(measured && setting.range.empty(), false) << setting.name;
    }
  };
  check(process_settings());
  check(policy_settings());
  check(upstream_settings());
}

TEST(ConfigTables, a_dialect_chosen_is_the_dialect_as_core_has_it) {
  for (const std::string_view name : dialect_names()) {
    Policy policy = builtin_policy();
    const auto& table = policy_settings();
    const auto chooser = std::ranges::find(table, "dialect", &Setting<Policy>::name);
    ASSERT_TRUE(chooser->set(policy, {std::string(name)}).has_value());
    EXPECT_EQ(all_values(table, policy), all_values(table, *dialect(name)));
  }
}

TEST(ConfigReference, the_yaml_reads_as_the_defaults) {
  const auto config = parse(reference_yaml(), "reference.yaml");
  ASSERT_TRUE(config.has_value()) << to_string(config.error().front()) << "\n" << reference_yaml();
  EXPECT_EQ(all_values(process_settings(), *config), all_values(process_settings(), builtin_config()));
  EXPECT_EQ(all_values(policy_settings(), config->defaults), all_values(policy_settings(), builtin_policy()));
  EXPECT_TRUE(config->routes.empty());
}

TEST(ConfigReference, the_yaml_has_every_setting) {
  const std::string yaml = reference_yaml();
  const auto check = [&](const auto& table) {
    for (const auto& setting : table) {
      const std::string_view name = setting.name.substr(setting.name.rfind('.') + 1);
      EXPECT_TRUE(yaml.contains(fmt::format(" {}: ", name)) || yaml.contains(fmt::format("\n{}: ", name))) << name;
    }
  };
  check(process_settings());
  check(policy_settings());
  check(route_settings());
}

// Holds a file of the repository against what it is made from, or makes it anew.
void expect_up_to_date(const std::string& path, const std::string& expected) {
  if (std::getenv("ONCE_UPDATE_DOCS") != nullptr) std::ofstream(path) << expected;
  std::ifstream file(path);
  std::stringstream content;
  content << file.rdbuf();
  EXPECT_EQ(content.str(), expected) << "run: ONCE_UPDATE_DOCS=1 ctest --preset dev -R ConfigReference";
}

const std::filesystem::path pages_folder = ONCE_SOURCE_DIR "/docs/reference/configuration";

TEST(ConfigReference, the_pages_in_docs_are_up_to_date) {
  std::set<std::string> files;
  for (const ReferencePage& page : reference_pages()) {
    expect_up_to_date(pages_folder / page.file, page.text);
    files.emplace(page.file);
  }
  for (const auto& entry : std::filesystem::directory_iterator(pages_folder)) {
    EXPECT_TRUE(files.contains(entry.path().filename())) << entry.path() << " is a page that nothing makes";
  }
}

TEST(ConfigReference, every_setting_is_on_one_page) {
  std::map<std::string, int> seen;
  for (const ReferencePage& page : reference_pages()) {
    for (std::size_t at = 0; (at = page.text.find("\n### `", at)) != std::string::npos; ++at) {
      const std::size_t begin = at + 6;
      ++seen[page.text.substr(begin, page.text.find('`', begin) - begin)];
    }
  }
  std::map<std::string, int> wanted;
  const auto count = [&](const auto& table) {
    for (const auto& setting : table) ++wanted[std::string(setting.name)];
  };
  count(process_settings());
  count(policy_settings());
  count(route_settings());
  count(upstream_settings());
  EXPECT_EQ(seen, wanted);
}

TEST(ConfigReference, the_schema_in_docs_is_up_to_date) {
  expect_up_to_date(ONCE_SOURCE_DIR "/docs/reference/once.schema.json", json_schema());
}

TEST(ConfigReference, the_example_in_the_page_is_valid) {
  const std::string page = reference_pages().front().text;
  const std::size_t begin = page.find("```yaml\n") + 8;
  const auto config = parse(page.substr(begin, page.find("```\n", begin) - begin), "README.md");
  ASSERT_TRUE(config.has_value()) << to_string(config.error().front());
  EXPECT_EQ(config->routes.size(), 2U);
}

}  // namespace once::config::reference_test
