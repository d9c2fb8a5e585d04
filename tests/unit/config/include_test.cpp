#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "config/load.hpp"
#include "config/reload.hpp"
#include "tests/unit/support/temporary_folder.hpp"

namespace once::config::include_test {

class ConfigInclude : public testing::Test {
 protected:
  ConfigInclude() { std::filesystem::create_directories(folder_ / "conf.d"); }

  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  std::expected<Config, ConfigErrors> loaded(std::span<const Override> overrides = {}) const {
    return load((folder_ / "once.yaml").string(), overrides, [](std::string_view name) {
      return name == "FOLDER" ? std::optional<std::string>("conf.d") : std::nullopt;
    });
  }
  // With the folder taken out.
  std::string errors(std::span<const Override> overrides = {}) const {
    const auto config = loaded(overrides);
    std::string all;
    if (config) return all;
    for (const ConfigError& error : config.error()) all += to_string(error) + "\n";
    const std::string folder = folder_.string() + "/";
    for (auto at = all.find(folder); at != std::string::npos; at = all.find(folder)) all.erase(at, folder.size());
    return all;
  }

  const TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
};

TEST_F(ConfigInclude, files_are_read_as_though_they_were_one) {
  write("once.yaml",
        "include: conf.d/*.yaml\nlimits: {max_in_flight: 7}\nupstreams: {main: http://m}\n"
        "defaults: {ttl: 2h}\nroutes: [{path: /**}]");
  write("conf.d/20-b.yaml", "routes:\n  - path: /b\n    upstream: b\nupstreams: {b: {servers: http://b}}\n");
  write("conf.d/10-a.yaml", "routes: [{path: /a1}, {path: /a2}]\nlimits: {min_rate: 5}\ndefaults: {lease: 9s}\n");
  write("conf.d/30-empty.yaml", "# nothing\n");
  write("conf.d/.hidden.yaml", "nonsense");
  write("conf.d/notes.txt", "nonsense");
  const auto config = loaded();
  ASSERT_TRUE(config) << errors();
  std::vector<std::string> paths;
  for (const Route& route : config->routes) paths.push_back(route.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"/a1", "/a2", "/b", "/**"}));
  EXPECT_EQ(config->upstreams.at(0).name, "main");
  EXPECT_EQ(config->upstreams.at(1).name, "b");
  EXPECT_EQ(config->limits.max_in_flight, 7U);
  EXPECT_EQ(config->limits.min_rate, 5U);
  EXPECT_EQ(config->routes.at(2).policy.ttl, std::chrono::hours(2)) << "the defaults hold in all files";
  EXPECT_EQ(config->routes.at(2).policy.lease, std::chrono::seconds(9));
  EXPECT_EQ(config->routes.at(2).where.file, (folder_ / "conf.d/20-b.yaml").string());
  EXPECT_EQ(config->routes.at(2).where.line, 2);
}

TEST_F(ConfigInclude, mistakes_name_the_file_they_are_in) {
  write("once.yaml", "include: [a.yaml, conf.d/*.yaml]\nlisten: x");
  write("a.yaml", "\nadmin: y\n");
  write("conf.d/b.yaml", "routes:\n  - path: /x\n    lese: 1s\n");
  write("conf.d/c.yaml", "listen: \"x\nadmin: off\n");
  write("conf.d/d.yaml", "- a");
  EXPECT_EQ(errors(),
            "a.yaml:2:8: admin: expected an address such as 127.0.0.1:8080 or [::1]:8080, or off, got \"y\"\n"
            "conf.d/b.yaml:3:5: unknown setting \"lese\"; did you mean \"lease\"?\n"
            "conf.d/c.yaml:1:9: not valid YAML: a quoted string begins here, and its closing quote is missing\n"
            "conf.d/d.yaml:1:1: expected a map of settings\n"
            "once.yaml:2:9: listen: expected an address such as 127.0.0.1:8080 or [::1]:8080, or off, got \"x\"\n");
}

TEST_F(ConfigInclude, what_two_files_set_is_refused_with_both_places) {
  write("once.yaml", "include: conf.d/*\nlisten: a:1\nupstreams: {u: http://u}\ndefaults: {ttl: 1h}");
  write("conf.d/a", "listen: a:2\nupstreams: {u: {servers: http://v}}\n");
  write("conf.d/b", "defaults: {ttl: 2h}\n");
  EXPECT_EQ(errors(),
            "conf.d/a:1:1: \"listen\" is set twice; it is also set in once.yaml:2:1\n"
            "conf.d/a:2:13: \"upstreams.u\" is set twice; it is also set in once.yaml:3:13\n"
            "conf.d/b:1:12: \"ttl\" is set twice; it is also set in once.yaml:4:12\n");
}

TEST_F(ConfigInclude, what_cannot_be_included_is_said_where_it_is_named) {
  write("once.yaml", "listen: a:1\ninclude: [nothing.yaml, conf.d, once.yaml, a.yaml, a.*, none/*.yaml]\n");
  write("a.yaml", "include: b.yaml");
  EXPECT_EQ(errors(),
            "a.yaml:1:10: include: an included file cannot include others\n"
            "once.yaml:2:10: include: a.yaml has already been read\n"
            "once.yaml:2:10: include: conf.d is not a file\n"
            "once.yaml:2:10: include: none/*.yaml: a folder cannot be read: No such file or directory\n"
            "once.yaml:2:10: include: nothing.yaml: cannot be read: No such file or directory\n"
            "once.yaml:2:10: include: once.yaml has already been read\n");
  write("once.yaml", "include: {a: b}");
  EXPECT_EQ(errors(), "once.yaml:1:10: include: expected a list, each a path, got a map\n");
  write("once.yaml", "");
  const Override overrides[] = {{"--set include", "include", "a.yaml"}};
  EXPECT_EQ(errors(overrides), "--set include: only a file can include others\n");
}

TEST_F(ConfigInclude, names_may_hold_variables) {
  write("once.yaml", "include: ${FOLDER}/a.yaml");
  write("conf.d/a.yaml", "threads: 3");
  const auto config = loaded();
  ASSERT_TRUE(config) << errors();
  EXPECT_EQ(config->threads, 3U);
}

TEST_F(ConfigInclude, a_reload_takes_other_files) {
  write("once.yaml", "include: conf.d/*.yaml\nupstreams: {u: http://u}");
  const auto before = loaded();
  write("conf.d/a.yaml", "routes: [{path: /a}]");
  const auto after = loaded();
  ASSERT_TRUE(before && after);
  EXPECT_EQ(needs_restart(*before, *after), std::vector<std::string>{});
  EXPECT_EQ(after->routes.size(), 1U);
  EXPECT_TRUE(reloads("include"));
}

}  // namespace once::config::include_test
