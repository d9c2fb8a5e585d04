// The catalogue: a URL finds its store or none, and what is opened has all that it needs.
#include "store/catalog/catalog.hpp"

#include <unistd.h>

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/exclusive.hpp"
#include "tests/unit/support/temporary_folder.hpp"

namespace once::store {
namespace catalog_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class CatalogTest : public testing::Test {
 protected:
  Result<OpenedStore> open(const std::string& url, const StoreSettings& settings = StoreSettings()) {
    return open_store(url, settings, {.clock = clock_, .log = log_});
  }
  std::string why_not(const std::string& url, const StoreSettings& settings = StoreSettings()) {
    const auto opened = open(url, settings);
    return opened ? "" : opened.error().detail;
  }
  static std::vector<std::string_view> settings_of(const StoreReport& report) {
    std::vector<std::string_view> names;
    for (const StoreLimit& limit : report.limits) names.push_back(limit.setting);
    return names;
  }

  SystemClock clock_;
  Log log_{clock_, STDERR_FILENO, LogLevel::error, LogFormat::text};
  TemporaryFolder folder_;
};

std::string_view name_of(std::string_view url) {
  const StoreType* const type = find_store(url);
  return type == nullptr ? "none" : type->name;
}

TEST(CatalogNames, a_url_is_found_by_its_scheme) {
  EXPECT_EQ(name_of("memory:"), "memory");
  EXPECT_EQ(name_of("journal:"), "journal");
  EXPECT_EQ(name_of("journal:/var/lib/once"), "journal");
  EXPECT_EQ(name_of("redis://h"), "redis");
  EXPECT_EQ(name_of("rediss://h"), "redis");
  EXPECT_EQ(name_of("postgres://h/d"), "postgres");
  EXPECT_EQ(name_of("postgresql://h/d"), "postgres");
  EXPECT_EQ(name_of("mysql://h/d"), "mysql");
  EXPECT_EQ(name_of("mariadb://h/d"), "mysql");
  EXPECT_EQ(name_of("journal:redis://h"), "journal");
}

TEST(CatalogNames, others_are_not_found) {
  for (const std::string_view url : {"", ":", "memory", "memory:x", "journal", "redisx://h", "Redis://h", "sqlite:x"}) {
    EXPECT_EQ(name_of(url), "none") << url;
  }
}

// Whoever walks the list relies on it.
TEST(CatalogTypes, every_row_is_whole_and_no_scheme_is_there_twice) {
  std::set<std::string_view> schemes;
  for (const StoreType* type : store_types()) {
    EXPECT_TRUE(schemes.insert(type->name).second) << type->name;
    if (!type->other_scheme.empty()) EXPECT_TRUE(schemes.insert(type->other_scheme).second) << type->other_scheme;
    EXPECT_NE(type->open == nullptr, type->connect == nullptr) << type->name;
    EXPECT_EQ(type->connect != nullptr, type->place == StorePlace::server) << type->name;
    EXPECT_EQ(type->connect != nullptr, type->check != nullptr) << type->name;
    EXPECT_THAT(std::string(type->form), StartsWith(url_prefix(*type)));
    EXPECT_FALSE(type->settings[0].empty()) << type->name;
    EXPECT_EQ(is_shared_store(type->form), type->shared == Shared::yes) << type->name;
  }
}

TEST(CatalogTypes, people_are_told_of_all_of_them) {
  EXPECT_EQ(store_forms(),
            "journal:FOLDER, memory:, redis://HOST:PORT, postgres://HOST/DATABASE or mysql://HOST/DATABASE");
}

TEST(CatalogTypes, databases_have_a_schema) {
  EXPECT_THAT(find_store("postgres://h")->schema->script(), HasSubstr("CREATE TABLE"));
  EXPECT_THAT(find_store("mysql://h")->schema->script(), HasSubstr("CREATE TABLE"));
  EXPECT_EQ(find_store("redis://h")->schema, nullptr);
}

TEST(CatalogTypes, a_url_is_checked_without_a_server) {
  EXPECT_TRUE(find_store("redis://h")->check("redis://h").has_value());
  EXPECT_THAT(find_store("redis://h")->check("redis://h/abc").error().detail, HasSubstr("must be a number"));
  EXPECT_THAT(find_store("mysql://h")->check("mysql://h").error().detail, HasSubstr("names no database"));
  EXPECT_THAT(find_store("postgres://h")->check("postgres://h/d?sslmod=x").error().detail, HasSubstr("unknown option"));
}

TEST_F(CatalogTest, memory_is_opened_within_its_limit) {
  const StoreSettings settings{.memory = {.max_bytes = 5 << 20}};
  const auto opened = open("memory:", settings);
  ASSERT_TRUE(opened.has_value());
  EXPECT_EQ(opened->lanes, 1U);
  EXPECT_EQ(opened->store().exclusive(), nullptr);
  const StoreReport report = opened->store().report();
  EXPECT_EQ(report.metrics.front().name, "once_store_bytes_limit");
  EXPECT_EQ(report.metrics.front().value, settings.memory.max_bytes);
  EXPECT_THAT(settings_of(report), ElementsAre("memory.max_bytes"));
  EXPECT_EQ(find_store("memory:")->capacity, nullptr) << "it evicts by itself what an address has too much of";
}

TEST_F(CatalogTest, a_journal_is_where_the_url_says_or_else_the_settings) {
  const std::string named = folder_.path() + "/named";
  const StoreSettings settings{.folder = folder_.path() + "/usual"};
  EXPECT_TRUE(open("journal:" + named, settings).has_value());
  EXPECT_EQ(::access(settings.folder.c_str(), F_OK), -1);
  EXPECT_TRUE(open("journal:", settings).has_value());
  EXPECT_EQ(::access(settings.folder.c_str(), F_OK), 0);
  EXPECT_THAT(why_not("journal:"), HasSubstr("names no folder"));
}

TEST_F(CatalogTest, a_journal_can_be_handed_over_also_if_it_is_sealed) {
  const StoreSettings settings{.folder = folder_.path(), .sealing_secrets = {"0123456789abcdef"}};
  const auto opened = open("journal:", settings);
  ASSERT_TRUE(opened.has_value());
  ASSERT_NE(opened->sealed, nullptr);
  EXPECT_THAT(settings_of(opened->store().report()), ElementsAre("journal.max_memory", "journal.max_disk"));
  EXPECT_NE(why_not("journal:", settings), "") << "two have it open";

  Exclusive* const exclusive = opened->store().exclusive();
  ASSERT_NE(exclusive, nullptr);
  EXPECT_FALSE(exclusive->handed_over());
  exclusive->give_up();
  EXPECT_TRUE(exclusive->closed());
  EXPECT_TRUE(exclusive->handed_over());
  EXPECT_EQ(why_not("journal:", settings), "") << "it is free for another process";
  ASSERT_TRUE(exclusive->open(Duration::zero()).has_value());
  EXPECT_FALSE(exclusive->closed());
  EXPECT_EQ(opened->store().condition(), StoreCondition::well);
}

TEST_F(CatalogTest, without_secrets_nothing_is_sealed) {
  const auto opened = open("memory:");
  ASSERT_TRUE(opened.has_value());
  EXPECT_EQ(&opened->store(), opened->plain.get());
}

// A server that is down mends itself, so it is no reason not to start.
TEST_F(CatalogTest, a_store_behind_a_server_has_a_lane_a_connection_and_counts_them) {
  const StoreSettings settings{.server = {.connections = 3}};
  const auto opened = open("redis://127.0.0.1:1", settings);
  ASSERT_TRUE(opened.has_value());
  EXPECT_EQ(opened->lanes, 3U);
  EXPECT_NE(opened->sweeper, nullptr);
  EXPECT_EQ(opened->store().report().metrics.front().name, "once_store_connections");
  EXPECT_EQ(opened->store().exclusive(), nullptr);
}

TEST_F(CatalogTest, what_no_store_has_is_refused) {
  EXPECT_EQ(why_not("sqlite:x"), "the store must be " + store_forms());
  EXPECT_EQ(why_not("memory:x"), "the store must be " + store_forms());
}

// Names on /metrics belong to one family each, whichever store is asked.
TEST_F(CatalogTest, no_metric_is_reported_twice_and_all_have_words) {
  for (const std::string& url :
       {std::string("memory:"), "journal:" + folder_.path(), std::string("redis://127.0.0.1:1")}) {
    const auto opened = open(url);
    ASSERT_TRUE(opened.has_value()) << url;
    std::set<std::string_view> names;
    for (const StoreMetric& metric : opened->store().report().metrics) {
      EXPECT_TRUE(names.insert(metric.name).second) << metric.name;
      EXPECT_THAT(std::string(metric.name), StartsWith("once_"));
      EXPECT_EQ(metric.name.ends_with("_total"), metric.type == StoreMetric::Type::counter) << metric.name;
      EXPECT_TRUE(metric.help.ends_with('.')) << metric.name;
    }
  }
}

}  // namespace catalog_test
}  // namespace once::store
