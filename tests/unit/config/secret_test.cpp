#include "config/secret.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "config/settings.hpp"
#include "tests/unit/support/temporary_folder.hpp"

namespace once::config::secret_test {

std::optional<std::string> nothing_set(std::string_view) {
  return std::nullopt;
}

Environ with_secret(std::string secret) {
  return [secret](std::string_view name) -> std::optional<std::string> {
    if (name != "ONCE_SECRET") return std::nullopt;
    return secret;
  };
}

mode_t mode_of(const std::string& path) {
  struct stat status{};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777U;
}

class ConfigSecret : public testing::Test {
 protected:
  ConfigSecret() {
    config_ = builtin_config();
    config_.data_dir = folder_ + "/deep/data";
  }

  std::string file(std::string_view content, mode_t mode) {
    const std::string path = folder_ + "/given";
    std::ofstream(path) << content;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    config_.secret_file = path;
    return path;
  }

  std::string error(const Environ& environ = nothing_set) {
    const auto secret = find_secret(config_, environ, random_);
    return secret ? "" : secret.error();
  }

  const TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path();
  Config config_;
  SystemRandom random_;
};

TEST_F(ConfigSecret, is_made_once_and_kept_for_its_owner_only) {
  const auto first = find_secret(config_, nothing_set, random_);
  ASSERT_TRUE(first.has_value()) << first.error();
  EXPECT_EQ(first->bytes.size(), 64U);
  EXPECT_EQ(first->warning, "");
  EXPECT_EQ(mode_of(config_.data_dir), 0700U);
  EXPECT_EQ(mode_of(config_.data_dir + "/secret"), 0600U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(config_.data_dir), {}), 1) << "no temporary file is left";
  const auto second = find_secret(config_, nothing_set, random_);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->bytes, first->bytes);
}

TEST_F(ConfigSecret, two_processes_that_start_together_agree) {
  std::vector<std::string> found(8);
  {
    std::vector<std::jthread> starting;
    for (std::string& own : found) {
      starting.emplace_back([&own, config = config_] {
        SystemRandom random;
        own = find_secret(config, nothing_set, random).value_or(Secret()).bytes;
      });
    }
  }
  EXPECT_EQ(found.front().size(), 64U);
  for (const std::string& own : found) EXPECT_EQ(own, found.front());
}

TEST_F(ConfigSecret, the_environment_comes_before_the_file) {
  file("0123456789abcdef-file\n", 0600);
  EXPECT_EQ(find_secret(config_, nothing_set, random_).value().bytes, "0123456789abcdef-file");
  EXPECT_EQ(find_secret(config_, with_secret("0123456789abcdef"), random_).value().bytes, "0123456789abcdef");
}

TEST_F(ConfigSecret, files_that_others_can_read_are_warned_about) {
  const std::string path = file("0123456789abcdef", 0644);
  EXPECT_THAT(find_secret(config_, nothing_set, random_).value().warning,
              testing::StartsWith("other users can read the secret in " + path + "; run: ch"));
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(find_secret(config_, nothing_set, random_).value().warning, "");
}

TEST_F(ConfigSecret, too_short_ones_are_refused) {
  const std::string path = file("0123456789abcde\n", 0600);
  EXPECT_EQ(error(),
            "the secret in " + path + " has 15 bytes, at least 16 are needed; make one with: openssl rand -hex 32");
  EXPECT_EQ(error(with_secret("short\n")),
            "ONCE_SECRET has 5 bytes, 16 to 4096 are needed; make one with: openssl rand -hex 32");
  EXPECT_EQ(error(with_secret("")),
            "ONCE_SECRET has 0 bytes, 16 to 4096 are needed; make one with: openssl rand -hex 32");
}

TEST_F(ConfigSecret, looked_for_and_not_made) {
  EXPECT_EQ(given_secret(config_, nothing_set).value().bytes, "");
  EXPECT_FALSE(std::filesystem::exists(config_.data_dir));
  const std::string made = find_secret(config_, nothing_set, random_).value().bytes;
  EXPECT_EQ(given_secret(config_, nothing_set).value().bytes, made);
  std::ofstream(config_.data_dir + "/secret") << "short";
  EXPECT_FALSE(given_secret(config_, nothing_set).has_value());
  config_.store = "redis://localhost";
  EXPECT_THAT(given_secret(config_, nothing_set).value().warning, testing::HasSubstr("a shared store needs a secret"));
  EXPECT_THAT(error(), testing::HasSubstr("a shared store needs a secret"));
}

TEST_F(ConfigSecret, files_that_are_missing_are_told) {
  config_.secret_file = "/nonexistent/secret";
  EXPECT_EQ(error(), "cannot read the secret in /nonexistent/secret: No such file or directory");
}

TEST_F(ConfigSecret, a_folder_that_cannot_be_made_is_told) {
  config_.data_dir = file("not a folder", 0600) + "/data";
  config_.secret_file.clear();
  EXPECT_TRUE(error().starts_with("cannot make the folder " + config_.data_dir)) << error();
}

TEST_F(ConfigSecret, production_and_shared_stores_need_one) {
  const std::string how =
      " needs a secret: make one with `openssl rand -hex 32`, and put it into ONCE_SECRET or into the file of "
      "secret_file";
  config_.environment = Environment::production;
  EXPECT_EQ(error(), "environment: production" + how);
  EXPECT_EQ(error(with_secret("0123456789abcdef")), "");
  config_.environment = Environment::development;
  for (const char* store : {"redis://a", "rediss://a", "postgres://a", "postgresql://a", "mysql://a", "mariadb://a"}) {
    config_.store = store;
    EXPECT_EQ(error(), "a shared store" + how);
  }
  EXPECT_FALSE(std::filesystem::exists(config_.data_dir));
}

TEST_F(ConfigSecret, finish_makes_none_for_a_process_that_will_not_start) {
  EXPECT_FALSE(prepare(config_, nothing_set, random_).has_value());
  EXPECT_FALSE(std::filesystem::exists(config_.data_dir));
}

TEST_F(ConfigSecret, finish_fills_it_in) {
  Upstream upstream;
  upstream.name = "a";
  upstream.servers.emplace_back().host = "a";
  config_.upstreams.push_back(upstream);
  const auto warnings = prepare(config_, nothing_set, random_);
  ASSERT_TRUE(warnings.has_value());
  EXPECT_EQ(warnings->size(), 1U) << "the caller that may be missing, and nothing about the secret";
  EXPECT_EQ(config_.secret.size(), 64U);
}

TEST_F(ConfigSecret, is_found_where_its_source_says) {
  const std::string path = file("from the file, long enough\n", 0600);
  const Environ environ = [](std::string_view name) -> std::optional<std::string> {
    if (name == "LONG") return "from the environment\n";
    if (name == "SHORT") return "short";
    return std::nullopt;
  };
  EXPECT_EQ(resolve_secret("file:" + path, environ)->bytes, "from the file, long enough");
  EXPECT_EQ(resolve_secret("env:LONG", environ)->bytes, "from the environment");
  EXPECT_EQ(resolve_secret("the-secret-itself", environ)->bytes, "the-secret-itself");
  EXPECT_EQ(resolve_secret("", environ)->bytes, "");
  EXPECT_EQ(resolve_secret("env:NONE", environ).error(), "the environment variable NONE is not set");
  EXPECT_EQ(resolve_secret("env:SHORT", environ).error(),
            "SHORT has 5 bytes, 16 to 4096 are needed; make one with: openssl rand -hex 32");
  EXPECT_FALSE(resolve_secret("file:/nonexistent/token", environ).has_value());
}

}  // namespace once::config::secret_test
