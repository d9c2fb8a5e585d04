// The PostgreSQL store and its server: schema, sweep, what is told by LISTEN, and what is said when it cannot be
// opened.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "store/postgres/listener.hpp"
#include "tests/store/postgres_support.hpp"
#include "tests/unit/support/loopback.hpp"

namespace once::store {
namespace postgres_server_test {

class PostgresServer : public PostgresTest {
 protected:
  static std::string error_of(const std::string& url, const ServerSettings& settings = ServerSettings()) {
    const auto opened = PostgresStore::open(url, settings, quiet_log());
    return opened ? "opened" : opened.error().detail;
  }
  // Of the tests' server, with another user and password.
  static std::string url_of(const std::string& user) {
    const std::string url = contract::server_url();
    return "postgres://" + user + url.substr(url.find('@'));
  }
};

std::string host_of(const LoopbackListener& silent) {
  return fmt::format("127.0.0.1:{}", silent.port());
}

// Those that were told, to be waited for.
class Heard {
 public:
  void add(const OperationId& id) {
    const std::scoped_lock lock(mutex_);
    ids_.push_back(id);
    more_.notify_all();
  }
  bool wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    return more_.wait_for(lock, std::chrono::seconds(20), [&] { return ids_.size() >= count; });
  }
  std::vector<OperationId> ids() {
    const std::scoped_lock lock(mutex_);
    return ids_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<OperationId> ids_;
};

Op with_waiter(Op op) {
  op.waits = Waits::yes;
  return op;
}

const std::string listeners = "FROM pg_stat_activity WHERE query = 'LISTEN once_ended' AND state = 'idle'";

TEST_F(PostgresServer, the_end_of_what_somebody_waits_for_is_told_to_other_gateways) {
  Heard heard;
  const auto waiting = open();
  waiting->notify_of_ends([&](const OperationId& id) { heard.add(id); });
  const auto other = open();
  Sql sql;
  sql.wait_for("(SELECT count(*) = 1 " + listeners + ")");

  const Owner finished = claimed_on(*other);
  const Owner released = claimed_on(*other);
  const Owner by_backend = claimed_on(*other);
  const Owner not_waited_for = claimed_on(*other);
  for (const Owner& each : {finished, released, by_backend}) {
    const Op seen = run_on(*waiting, with_waiter(op_of(Verb::lookup, each)));
    EXPECT_EQ(seen.record->state, State::started);
  }
  EXPECT_EQ(sql("SELECT waited FROM once_leases WHERE id = '\\x" + to_hex(finished.id) + "'"), "t");
  ASSERT_EQ(run_on(*other, finish_op(not_waited_for)).status, OpStatus::done);
  ASSERT_EQ(run_on(*other, finish_op(finished)).status, OpStatus::done);
  ASSERT_TRUE(heard.wait_for(1));
  ASSERT_EQ(run_on(*other, op_of(Verb::release, released)).status, OpStatus::done);
  ASSERT_TRUE(heard.wait_for(2));
  sql("SELECT once_finish('" + by_backend.claim() + "', 200)");
  ASSERT_TRUE(heard.wait_for(3));
  EXPECT_EQ(heard.ids(), (std::vector{finished.id, released.id, by_backend.id}));
  EXPECT_EQ(waiting->stats().notified, 3U);
}

TEST_F(PostgresServer, new_chunks_are_told_to_other_gateways_that_wait_for_them) {
  Heard heard;
  const auto waiting = open();
  waiting->notify_of_ends([&](const OperationId& id) { heard.add(id); });
  const auto other = open();
  Sql sql;
  sql.wait_for("(SELECT count(*) = 1 " + listeners + ")");
  const Owner it = claimed_on(*other);
  const Owner unread = claimed_on(*other);
  for (const Owner& each : {it, unread}) ASSERT_EQ(run_on(*other, append_op(each, 0, "head")).status, OpStatus::done);
  EXPECT_EQ(chunks_at(*waiting, it), "head");
  ASSERT_EQ(run_on(*other, append_op(it, 1, "nobody waits for this")).status, OpStatus::done);
  Op read = with_waiter(op_of(Verb::read, it));
  read.chunk = 2;
  EXPECT_EQ(run_on(*waiting, read).chunks.size(), 0U);
  ASSERT_EQ(run_on(*other, append_op(unread, 1, "nor for this")).status, OpStatus::done);
  ASSERT_EQ(run_on(*other, append_op(it, 2, "two")).status, OpStatus::done);
  ASSERT_TRUE(heard.wait_for(1));
  ASSERT_EQ(run_on(*other, append_op(it, 2, "two")).status, OpStatus::done) << "repeated: there is nothing new";
  ASSERT_EQ(run_on(*other, op_of(Verb::renew, it)).status, OpStatus::done);
  ASSERT_EQ(run_on(*other, append_op(it, 3, "three")).status, OpStatus::done);
  ASSERT_TRUE(heard.wait_for(2));
  ASSERT_EQ(run_on(*other, keep_op(it)).status, OpStatus::done);
  ASSERT_TRUE(heard.wait_for(3));
  EXPECT_EQ(heard.ids(), (std::vector{it.id, it.id, it.id}));
}

TEST_F(PostgresServer, who_waits_twice_writes_once) {
  const auto store = open();
  const Owner it = claimed_on(*store);
  Sql sql;
  run_on(*store, with_waiter(op_of(Verb::lookup, it)));
  const std::string note = "SELECT ctid, xmin, xmax FROM once_leases WHERE id = '\\x" + to_hex(it.id) + "'";
  const std::string before = sql(note, 3);
  EXPECT_NE(before, "");
  run_on(*store, with_waiter(op_of(Verb::lookup, it)));
  EXPECT_EQ(sql(note, 3), before);
}

TEST_F(PostgresServer, a_sweep_clears_what_was_noted_of_operations_that_have_ended) {
  Sql sql;
  const Owner at_work = claimed();
  const Owner ended = claimed();
  const Owner waited_for = claimed();
  for (const Owner& each : {at_work, ended}) {
    ASSERT_EQ(run(op_of(Verb::renew, each)).status, OpStatus::done);
  }
  run(with_waiter(op_of(Verb::lookup, waited_for)));
  for (const Owner& each : {ended, waited_for}) {
    ASSERT_EQ(run(finish_op(each)).status, OpStatus::done);
  }
  const auto noted = [&] { return sql("SELECT count(*) FROM once_leases"); };
  EXPECT_EQ(noted(), "3");
  ASSERT_TRUE(store().sweep(10).has_value());
  EXPECT_EQ(noted(), "2") << "a lease that has not ended may be renewed in this moment";
  contract::advance_server_clock(std::chrono::seconds(25));
  ASSERT_EQ(run(op_of(Verb::renew, at_work)).status, OpStatus::done);
  contract::advance_server_clock(std::chrono::minutes(2));
  ASSERT_TRUE(store().sweep(10).has_value());
  EXPECT_EQ(noted(), "1") << "of a claim that has lapsed, and nobody ended";
}

// An operation may take longer than its time to live.
TEST_F(PostgresServer, a_sweep_leaves_what_is_renewed_alone) {
  Sql sql;
  const Owner it = claimed();
  for (int hours = 0; hours < 26; hours += 2) {
    Op renewal = op_of(Verb::renew, it);
    renewal.terms.lease = std::chrono::hours(3);
    ASSERT_EQ(run(renewal).status, OpStatus::done);
    contract::advance_server_clock(std::chrono::hours(2));
    EXPECT_EQ(store().sweep(10)->removed, 0U);
  }
  EXPECT_EQ(sql("SELECT state FROM once_keys"), "started");
  EXPECT_EQ(sql.state("SELECT once_finish('" + it.claim() + "', 200)"), "none");
}

TEST_F(PostgresServer, a_listener_that_was_cut_off_listens_again) {
  Heard heard;
  const auto store = open();
  store->notify_of_ends([&](const OperationId& id) { heard.add(id); });
  Sql sql;
  sql.wait_for("(SELECT count(*) = 1 " + listeners + ")");
  const std::string first = sql("SELECT pid " + listeners);
  sql("SELECT pg_terminate_backend(" + first + ")");
  sql.wait_for("(SELECT count(*) = 1 " + listeners + " AND pid <> " + first + ")");
  const Owner it = claimed_on(*store);
  run_on(*store, with_waiter(op_of(Verb::lookup, it)));
  ASSERT_EQ(run_on(*store, finish_op(it)).status, OpStatus::done);
  EXPECT_TRUE(heard.wait_for(1));
}

TEST_F(PostgresServer, a_listener_ends_promptly_even_while_it_connects) {
  const LoopbackListener silent;
  ServerSettings settings;
  settings.connect_timeout = std::chrono::minutes(1);
  const auto begin = monotonic_now();
  {
    ServerCounts counts;
    const postgres::Listener listener("postgres://postgres@" + host_of(silent) + "/postgres", settings, counts,
                                      quiet_log(), [](const OperationId&) {});
  }
  EXPECT_LT(monotonic_now() - begin, std::chrono::seconds(30));
}

// For a minute: the next claim gets its fence.
TEST_F(PostgresServer, a_sweep_keeps_what_was_just_released) {
  const Owner released = claimed();
  ASSERT_EQ(run(op_of(Verb::release, released)).status, OpStatus::done);
  EXPECT_EQ(store().sweep(10)->removed, 0U);
  contract::advance_server_clock(std::chrono::minutes(1));
  EXPECT_EQ(store().sweep(10)->removed, 1U);
}

TEST_F(PostgresServer, the_script_may_run_again_while_gateways_work_and_refuses_other_revisions) {
  OwnDatabase database;
  Sql sql(database.url());
  sql(postgres::schema_script());
  const auto store = open(ServerSettings(), database.url());
  const Owner it = claimed_on(*store);
  sql(postgres::schema_script());
  EXPECT_EQ(sql("SELECT count(*) FROM " + row(it)), "1");
  EXPECT_EQ(sql("SELECT version, revision FROM once_schema", 2), "5|6");
  // Also for a connection whose plans are older than what the script replaced.
  EXPECT_EQ(run_on(*store, finish_op(it)).status, OpStatus::done);
  for (const int other : {4, 7}) {
    sql(fmt::format("UPDATE once_schema SET revision = {}", other));
    EXPECT_EQ(sql.state(postgres::schema_script()), "P0001") << other;
    sql("ROLLBACK");
  }
  sql("DELETE FROM once_schema");
  EXPECT_NE(error_of(database.url()).find("has revision 0"), std::string::npos);
}

TEST_F(PostgresServer, a_server_that_is_too_old_is_refused_by_its_version) {
  EXPECT_EQ(postgres::unsupported(130'000), "");
  EXPECT_EQ(postgres::unsupported(150'004), "");
  EXPECT_EQ(postgres::unsupported(120'017), "the server is PostgreSQL 12.17; the store needs version 13 or newer");
}

// Those of version 14 and later, which the schema must do without.
TEST_F(PostgresServer, the_schema_uses_no_function_that_version_13_lacks) {
  const std::string script = postgres::schema_script();
  for (const std::string_view newer : {"string_to_table(", "bit_count(", "date_bin(", "unistr(", "trim_array(",
                                       "regexp_count(", "regexp_like(", "regexp_substr("}) {
    EXPECT_EQ(script.find(newer), std::string::npos) << newer;
  }
}

TEST_F(PostgresServer, a_server_on_another_machine_counts_as_verified_only_if_its_certificate_is) {
  const auto host = [](const std::string& rest) { return postgres::unverified_host("postgres://once:pass@" + rest); };
  EXPECT_EQ(host("db.internal/shop"), "db.internal");
  EXPECT_EQ(host("db.internal/shop?sslmode=require"), "db.internal");
  EXPECT_EQ(host("localhost,10.0.0.7:5433/shop"), "10.0.0.7");
  EXPECT_EQ(host("db.internal/shop?sslmode=verify-full"), "");
  EXPECT_EQ(host("127.0.0.1:5433,[::1],localhost/shop"), "");
  EXPECT_EQ(host("%2Frun%2Fpostgresql/shop"), "");
}

TEST_F(PostgresServer, refused_credentials_are_an_error_that_does_not_show_them) {
  Sql sql;
  sql.state("CREATE ROLE has_a_password LOGIN SUPERUSER PASSWORD 'right'");
  EXPECT_EQ(error_of(url_of("has_a_password:right")), "opened");
  for (const char* user : {"has_a_password:wr0ng", "has_a_password", "nobody:wr0ng"}) {
    const std::string error = error_of(url_of(user));
    EXPECT_NE(error, "opened") << user;
    EXPECT_EQ(error.find("wr0ng"), std::string::npos) << error;
  }
  EXPECT_NE(error_of(url_of("has_a_password:wr0ng")).find("password authentication failed"), std::string::npos);
  const std::string malformed = error_of("postgres://user:wr0ng@127.0.0.1:port/x?y");
  EXPECT_NE(malformed, "opened");
  EXPECT_EQ(malformed.find("wr0ng"), std::string::npos) << malformed;
  EXPECT_NE(error_of(contract::server_url() + "_that_is_not_there"), "opened");
}

TEST_F(PostgresServer, a_server_that_cannot_be_reached_refuses_every_op_in_time) {
  ServerSettings settings;
  settings.connect_timeout = std::chrono::milliseconds(200);
  const LoopbackListener silent;
  const auto ask_both = [&] {
    const auto begin = monotonic_now();
    for (const std::string& host : {std::string("127.0.0.1:1"), host_of(silent)}) {
      const auto store = open(settings, "postgres://postgres:wr0ng@" + host + "/postgres");
      const Op refused = run_on(*store, op_of(Verb::claim, new_owner()));
      EXPECT_EQ(refused.status, OpStatus::failed);
      EXPECT_EQ(refused.fault, StoreFault::refused);
      EXPECT_EQ(refused.error.find("wr0ng"), std::string::npos) << refused.error;
      EXPECT_FALSE(refused.error.empty());
      EXPECT_FALSE(store->sweep(1).has_value());
    }
    return monotonic_now() - begin < std::chrono::seconds(5);
  };
  // A machine that pauses makes it longer, but not every time.
  EXPECT_TRUE(ask_both() || ask_both() || ask_both());
}

TEST_F(PostgresServer, of_several_hosts_the_one_that_answers_is_used) {
  ServerSettings settings;
  settings.connect_timeout = std::chrono::milliseconds(500);
  const LoopbackListener silent;
  const std::string url = contract::server_url();
  const std::string hosts = "127.0.0.1:1," + host_of(silent) + "," + url.substr(url.find('@') + 1);
  const auto store = open(settings, "postgres://postgres@" + hosts + "?target_session_attrs=read-write");
  const Op claim = op_of(Verb::claim, new_owner());
  Op claimed = run_on(*store, claim);
  // A server that pauses for longer is asked again.
  for (int left = 20; left > 0 && claimed.status == OpStatus::failed; --left) claimed = run_on(*store, claim);
  EXPECT_EQ(claimed.verdict, Verdict::execute);
}

TEST_F(PostgresServer, labels_of_any_bytes_and_any_length_are_taken) {
  const auto store = open();
  Sql sql;
  const std::string long_one(5000, 'x');
  const std::string broken("a\0b\xFF\xC3\xA9\xED\xA0\x80", 9);
  std::vector<Op> ops = {op_of(Verb::claim, new_owner()), op_of(Verb::claim, new_owner()),
                         op_of(Verb::claim, new_owner())};
  ops[0].tenant = long_one;
  ops[0].route = long_one;
  ops[1].tenant = broken;
  ops[2].tenant = "acme";
  ops[2].route = "/v1/payments";
  run_all(*store, ops);
  for (const Op& each : ops) EXPECT_EQ(each.verdict, Verdict::execute) << each.error;
  const auto labels = [&](const Op& each) {
    return sql("SELECT tenant, route FROM once_keys WHERE id = '" + to_hex(each.id) + "'", 2);
  };
  EXPECT_EQ(labels(ops[0]), std::string(200, 'x') + "|" + std::string(200, 'x'));
  EXPECT_EQ(labels(ops[1]), "a?b?é???|payments");
  EXPECT_EQ(labels(ops[2]), "acme|/v1/payments");
}

// More than one statement can take, in one batch.
TEST_F(PostgresServer, a_batch_of_large_outcomes_is_recorded) {
  const auto store = open();
  std::vector<Op> ops;
  for (int i = 0; i < 6; ++i) {
    const Owner it = claimed_on(*store);
    ops.push_back(finish_op(it, std::string(5U << 20U, static_cast<char>('a' + i))));
  }
  run_all(*store, ops);
  for (const Op& each : ops) {
    ASSERT_EQ(each.status, OpStatus::done) << each.error;
    const Op replayed = run_on(*store, op_of(Verb::claim, other_owner({each.id, {}})));
    ASSERT_EQ(replayed.verdict, Verdict::replay);
    EXPECT_TRUE(*replayed.record->outcome == *each.outcome);
  }
}

}  // namespace postgres_server_test
}  // namespace once::store
