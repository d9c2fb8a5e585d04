// The schema over its revisions: applied, refused, upgraded under load; programs of two versions beside each other. And
// what operators ask for in a table that is too large to be read.
#pragma once

#include <algorithm>
#include <atomic>
#include <latch>
#include <list>
#include <optional>

#include "tests/store/sql/server.hpp"

namespace once::sql_test {

// Does pieces of work over and over, each kind on a thread of its own, until it goes.
class Load {
 public:
  Load() = default;
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;
  ~Load() { stop_ = true; }

  // `make` is called on the new thread, and gives what is done there again and again.
  void add(std::function<std::function<void()>()> make) {
    std::atomic<int>& done = done_.emplace_back(0);
    threads_.emplace_back([this, &done, make = std::move(make)] {
      for (const std::function<void()> work = make(); !stop_; ++done) work();
    });
  }

  // Whether every kind gets on.
  bool goes_on() const {
    constexpr int enough = 20;
    std::vector<int> goals;
    for (const std::atomic<int>& done : done_) goals.push_back(done + enough);
    const auto reached = [&] {
      return std::equal(done_.begin(), done_.end(), goals.begin(), [](int done, int goal) { return done >= goal; });
    };
    const auto until = monotonic_now() + std::chrono::minutes(1);
    while (!reached() && monotonic_now() < until) std::this_thread::yield();
    return reached();
  }

 private:
  std::atomic<bool> stop_{false};
  std::list<std::atomic<int>> done_;
  std::list<std::jthread> threads_;  // last, so that they end first
};

class SqlUpgrade : public SqlTest {
 protected:
  // A new database, and a session in it.
  void begin(const std::string& name) {
    url_ = server().new_database(name);
    session_ = server().connect_to(url_);
  }
  std::string sql(const std::string& text) { return (*session_)(text); }
  std::string apply() {
    const auto applied = server().apply(url_);
    return applied ? *applied : "error: " + applied.error().detail;
  }
  std::string error_of_open() {
    const auto opened = server().open_at(url_);
    return opened ? "opened" : opened.error().detail;
  }
  std::unique_ptr<ServerStore> opened() {
    auto store = server().open_at(url_);
    EXPECT_TRUE(store.has_value()) << store.error().detail;
    return std::move(*store);
  }
  std::string with_revisions(std::string_view text) {
    return fmt::format(fmt::runtime(text), revision_ - 2, revision_ - 1, revision_, revision_ + 1);
  }
  static bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

  const std::uint64_t revision_ = server().revision();
  std::string url_;
  std::unique_ptr<SqlSession> session_;
};

// Before all others: it waits for locks of tables, which a MariaDB whose clock was moved never gives up on.
TEST_F(SqlUpgrade, two_versions_work_beside_each_other_through_an_upgrade) {
  if (!server().upgrades_under_load()) GTEST_SKIP() << "transactions that are in the way of an upgrade are rolled back";
  begin("once_upgraded");
  server().make_previous_schema(url_);
  Load load;
  const auto previous_gateway = [&](SqlSession& session, const Owner& owner) {
    for (const std::string& statement : server().previous_gateway(owner)) EXPECT_EQ(session(statement), "done");
    EXPECT_EQ(session("SELECT COUNT(*) FROM " + row(owner) + " AND state = 1 AND outcome = 'old'"), "1");
  };
  load.add([&] {
    return [&, session = std::shared_ptr(server().connect_to(url_)), random = std::make_shared<SystemRandom>()] {
      Owner owner;
      random->fill(owner.id.bytes);
      owner.nonce = random->nonce();
      previous_gateway(*session, owner);
    };
  });
  load.add([&] {
    return [&, session = std::shared_ptr(server().connect_to(url_)), random = std::make_shared<SystemRandom>()] {
      const std::string claimed = (*session)(
          server().claim(fmt::format("'acme', '{}', '', {}, {}, 'retry', {}", to_hex(random->nonce()),
                                     server().seconds("30"), server().seconds("60"), server().seconds("0"))));
      const std::string claim = "'" + std::string(split(claimed + "|", '|')[1]) + "'";
      EXPECT_EQ((*session)(server().call("once_renew", claim + ", " + server().seconds("30"))), "done");
      EXPECT_EQ((*session)(server().call("once_finish", claim + ", 200, '{}', 'done'")), "done");
    };
  });
  ASSERT_TRUE(load.goes_on());
  const auto slow = server().connect_to(url_);
  (*slow)("BEGIN; SELECT COUNT(*) FROM once_operations");
  std::optional<std::string> applied;
  std::jthread upgrade([&] { applied = apply(); });
  const auto until = monotonic_now() + std::chrono::minutes(1);
  while (ask(server().upgrades_that_wait()) == "0" && monotonic_now() < until) {
  }
  EXPECT_TRUE(load.goes_on()) << "the upgrade waits for a transaction, and keeps no other waiting for long";
  (*slow)("COMMIT");
  upgrade.join();
  EXPECT_EQ(applied, with_revisions("schema brought from revision {1} to {2}"));
  {
    const auto store = opened();
    const auto previous = server().connect_to(url_);
    const Owner of_previous = new_owner();
    previous_gateway(*previous, of_previous);
    EXPECT_EQ(run_on(*store, op_of(Verb::lookup, of_previous)).record->state, State::succeeded);
    const Owner of_this = new_owner();
    EXPECT_EQ(run_on(*store, op_of(Verb::claim, of_this)).verdict, Verdict::execute);
    EXPECT_EQ(run_on(*store, finish_op(of_this, "new")).status, OpStatus::done);
    EXPECT_EQ((*previous)("SELECT COUNT(*) FROM " + row(of_this) + " AND outcome = 'new'"), "1");
    EXPECT_TRUE(load.goes_on());
  }
  EXPECT_TRUE(load.goes_on()) << "back to the version before, on the new schema";
}

TEST_F(SqlUpgrade, the_schema_of_the_revision_before_gets_what_is_new_and_keeps_its_rows) {
  begin("once_before");
  server().make_previous_schema(url_);
  EXPECT_TRUE(has(error_of_open(), with_revisions("has revision {1}, this program needs {2}: run `once schema ")));
  sql(server().claim(fmt::format("'acme', 'one', '', {0}, {0}, 'retry', {0}", server().seconds("60"))));
  EXPECT_EQ(apply(), with_revisions("schema brought from revision {1} to {2}"));
  EXPECT_EQ(sql("SELECT COUNT(*) FROM once_schema WHERE " + with_revisions("version = {1} AND revision = {2}")), "1");
  EXPECT_EQ(sql("SELECT COUNT(*) FROM once_operations WHERE chunks_fence = 0"), "1");
  EXPECT_EQ(sql(server().sweep(10)), "0");
  EXPECT_EQ(apply(), with_revisions("schema revision {2} was there already"));
  sql("UPDATE once_schema SET version = 1");  // as earlier programs left it
  EXPECT_EQ(apply(), with_revisions("schema revision {2} was there already; the oldest program that may use it is now "
                                    "that of {1}"));
  EXPECT_EQ(sql("SELECT COUNT(*) FROM once_schema WHERE " + with_revisions("version = {1} AND revision = {2}")), "1");

  const auto store = opened();
  const Owner owner = new_owner();
  ASSERT_EQ(run_on(*store, op_of(Verb::claim, owner)).verdict, Verdict::execute);
  ASSERT_EQ(run_on(*store, append_op(owner, 0, "head")).status, OpStatus::done);
  ASSERT_EQ(run_on(*store, keep_op(owner)).status, OpStatus::done);
  EXPECT_EQ(sql("SELECT COUNT(*) FROM " + row(owner) + " AND body_kept = false AND chunks_fence = fence"), "1")
      << "for a program of the revision before it is not kept";
  const std::string in_chunks =
      "SELECT COUNT(*) FROM once_keys WHERE id = '" + to_hex(owner.id) + "' AND body_in_chunks = true";
  EXPECT_EQ(sql(in_chunks), "1");
  EXPECT_EQ(run_on(*store, read_op(owner)).chunks.size(), 1U);

  // As a program of the revision before executes it again after it has expired, and keeps no body.
  sql("UPDATE once_operations SET state = 1, body_kept = false, outcome = 'x', fence = fence + 1" + where(owner));
  EXPECT_EQ(run_on(*store, op_of(Verb::lookup, owner)).record->body_kept, BodyKept::no);
  EXPECT_EQ(sql(in_chunks), "0");
}

TEST_F(SqlUpgrade, a_newer_schema_is_used_if_it_says_that_this_program_can) {
  begin("once_newer");
  ASSERT_EQ(apply(), with_revisions("schema revision {2} made"));
  sql(with_revisions("UPDATE once_schema SET revision = {3}, version = {2}"));
  sql("ALTER TABLE once_operations ADD COLUMN later INT NOT NULL DEFAULT 7");
  {
    const auto store = opened();
    const Owner owner = new_owner();
    EXPECT_EQ(run_on(*store, op_of(Verb::claim, owner)).verdict, Verdict::execute);
    EXPECT_EQ(run_on(*store, finish_op(owner)).status, OpStatus::done);
  }
  EXPECT_EQ(apply(), with_revisions("schema revision {3} is there, newer than this program's {2}, which can use it"));
  sql(with_revisions("UPDATE once_schema SET version = {3}"));
  const std::string why = with_revisions("needs a program for revision {3} or newer; this one is for {2}");
  EXPECT_TRUE(has(error_of_open(), why)) << error_of_open();
  EXPECT_TRUE(has(apply(), why));
}

TEST_F(SqlUpgrade, a_schema_of_two_revisions_before_is_refused_and_left_as_it_is) {
  begin("once_older");
  ASSERT_EQ(apply(), with_revisions("schema revision {2} made"));
  sql(with_revisions("UPDATE once_schema SET revision = {0}, version = 1"));
  const std::string why = with_revisions(
      "has revision {0}; this program needs {2} and can upgrade only revision {1}: apply the schema of each version in "
      "between first, with its own program");
  EXPECT_TRUE(has(error_of_open(), why)) << error_of_open();
  EXPECT_TRUE(has(apply(), why));
  EXPECT_EQ(sql("SELECT revision FROM once_schema"), with_revisions("{0}"));
  for (const std::string& column : server().later_columns_of_once_schema()) {
    sql("ALTER TABLE once_schema DROP COLUMN " + column);
  }
  EXPECT_TRUE(has(error_of_open(), "has revision 1;")) << error_of_open();
  EXPECT_TRUE(has(apply(), "has revision 1;"));
}

TEST_F(SqlUpgrade, a_missing_schema_says_what_to_run) {
  begin("once_missing");
  EXPECT_TRUE(has(error_of_open(), fmt::format("once schema {} --apply URL", server().name()))) << error_of_open();
}

TEST_F(SqlUpgrade, applied_by_many_at_once_it_is_made_once) {
  begin("once_many");
  constexpr int count = 6;
  std::latch together(count);
  std::atomic<int> made{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      together.arrive_and_wait();
      const std::string applied = apply();
      if (has(applied, " made")) {
        ++made;
      } else {
        EXPECT_EQ(applied, with_revisions("schema revision {2} was there already"));
      }
    });
  }
  threads.clear();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(error_of_open(), "opened");
}

TEST_F(SqlUpgrade, a_table_that_is_too_large_to_be_read_is_counted_in_a_few_steps) {
  begin("once_large");
  ASSERT_EQ(apply(), with_revisions("schema revision {2} made"));
  const LargeTable large = server().fill(*session_);
  const auto store = opened();
  ASSERT_EQ(run_on(*store, op_of(Verb::claim, new_owner())).verdict, Verdict::execute);
  advance_server_clock(std::chrono::minutes(1));
  const Owner unknown = new_owner();
  ASSERT_EQ(run_on(*store, op_of(Verb::claim, unknown)).verdict, Verdict::execute);
  ASSERT_EQ(run_on(*store, finish_op(unknown, State::unknown)).status, OpStatus::done);
  ASSERT_EQ(run_on(*store, op_of(Verb::claim, new_owner())).verdict, Verdict::execute);

  CountsByState counts{};
  int steps = 0;
  std::string cursor;
  do {
    const auto part = store->search()->count(cursor);
    ASSERT_TRUE(part.has_value()) << part.error().detail;
    for (std::size_t i = 0; i < counts.size(); ++i) counts.at(i) += part->by_state.at(i);
    cursor = part->next;
    ++steps;
  } while (!cursor.empty());
  EXPECT_EQ(steps, large.steps);
  EXPECT_EQ(counts[static_cast<std::size_t>(State::started)], 1U);
  EXPECT_EQ(counts[lapsed_at], 1U);
  EXPECT_EQ(counts[static_cast<std::size_t>(State::unknown)], 1U);
  EXPECT_NEAR(static_cast<double>(counts[static_cast<std::size_t>(State::succeeded)]), large.rows, large.tolerance);

  const auto found = store->search()->scan({.state = State::unknown}, "", 10);
  ASSERT_TRUE(found.has_value()) << found.error().detail;
  ASSERT_EQ(found->keys.size(), 1U);
  EXPECT_EQ(found->keys.front().id, unknown.id);
  EXPECT_TRUE(found->next.empty()) << "one step was enough";
}

}  // namespace once::sql_test
