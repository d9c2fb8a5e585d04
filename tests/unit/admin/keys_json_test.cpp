#include "admin/keys_json.hpp"

#include <gtest/gtest.h>

#include "core/outcome.hpp"

namespace once::admin::keys_json_test {

constexpr Time now{Duration(1'763'225'643'007)};

KeyInfo unknown_key() {
  KeyInfo key{.state = State::unknown, .fence = Fence{7}, .started_at = now, .expires_at = Time::max()};
  key.id.bytes[0] = 0xab;
  return key;
}

TEST(KeyJson, is_what_the_contract_says) {
  const std::string json = key_json(unknown_key(), now);
  const auto tree = JsonTree::parse(json);
  ASSERT_TRUE(tree.has_value()) << json;
  EXPECT_EQ(tree->find("id")->string()->size(), 64U);
  EXPECT_EQ(*tree->find("state")->string(), "unknown");
  for (const char* name : {"caller", "route", "method", "path", "request_id"})
    EXPECT_TRUE(tree->find(name)->is_null()) << name;
  EXPECT_TRUE(tree->find("lease_until")->is_null());
  EXPECT_TRUE(tree->find("expires_at")->is_null()) << "never";
  EXPECT_EQ(*tree->find("started_at")->string(), "2025-11-15T16:54:03.007Z");
  EXPECT_EQ(tree->find("fence")->number()->text, "7");
}

TEST(KeyJson, names_the_request_of_the_latest_attempt) {
  KeyInfo key = unknown_key();
  key.tenant = "9d2c";
  key.route = "/orders/*\tPtreq-7 )17";
  EXPECT_TRUE(key_json(key, now).contains(
      R"("caller":"9d2c","route":"/orders/*","method":"POST","path":"/orders/17","request_id":"req-7",)"))
      << key_json(key, now);
  key.route = "invoices";
  EXPECT_TRUE(key_json(key, now).contains(R"("route":"invoices","method":null,"path":null,"request_id":null,)"));
}

TEST(KeyJson, says_where_the_body_is) {
  KeyInfo key = unknown_key();
  EXPECT_TRUE(key_json(key, now).contains(R"("body_kept":true,"body":null)"));
  key.state = State::succeeded;
  EXPECT_TRUE(key_json(key, now).contains(R"("body_kept":true,"body":"in_record")"));
  key.body_kept = BodyKept::no;
  EXPECT_TRUE(key_json(key, now).contains(R"("body_kept":false,"body":"not_kept")"));
  key.body_kept = BodyKept::in_chunks;
  const StoredResponse head{.headers = "A: b\r\n", .in_chunks = BodyInChunks{.length = 9}};
  const std::string json = key_json(key, now, "", std::make_shared<const std::string>(encode(head)));
  EXPECT_TRUE(json.contains(R"("body_kept":true,"body":"in_chunks")")) << json;
  EXPECT_TRUE(json.contains(R"("outcome":{"status":200,"headers":[["A","b"]]})")) << "no empty body: " << json;
}

TEST(KeyJson, a_claim_without_a_lease_is_live_for_ever) {
  KeyInfo key = unknown_key();
  key.state = State::started;
  key.lease_until = Time::max();
  EXPECT_TRUE(is_live(key, now));
  key.lease_until = now;
  EXPECT_FALSE(is_live(key, now));
}

TEST(Version, changes_with_every_claim_and_end_and_hides_the_nonce) {
  const KeyInfo key = unknown_key();
  KeyInfo other = key;
  other.nonce.bytes[3] = 1;
  EXPECT_NE(version_of(key), version_of(other));
  EXPECT_FALSE(version_of(other).contains(to_hex(other.nonce)));
  other = key;
  other.state = State::failed;
  EXPECT_NE(version_of(key), version_of(other));
  other = key;
  other.fence = Fence{8};
  EXPECT_NE(version_of(key), version_of(other));
  other = key;
  other.outcome_bytes = 5;
  EXPECT_EQ(version_of(key), version_of(other));
}

TEST(ReadList, takes_filters_and_refuses_what_is_none) {
  const auto list = read_list("state=unknown&caller=a%2Fb&older_than=5m&limit=7&cursor=1.2", now);
  ASSERT_TRUE(list.has_value()) << list.error();
  EXPECT_EQ(list->filter.state, State::unknown);
  EXPECT_EQ(list->filter.tenant, "a/b");
  EXPECT_EQ(list->filter.started_before, now - std::chrono::minutes(5));
  EXPECT_EQ(list->limit, 7U);
  EXPECT_EQ(list->cursor, "1.2");
  EXPECT_EQ(read_list("", now)->limit, 50U);
  for (const std::string_view wrong :
       {"limit=0", "limit=1001", "limit=x", "state=x", "newer_than=5", "caller=%zz", "tenant=a", "x=1"}) {
    EXPECT_FALSE(read_list(wrong, now).has_value()) << wrong;
  }
}

TEST(ParseTime, takes_rfc_3339_and_nothing_else) {
  EXPECT_EQ(parse_time("2025-11-15T16:54:03.007Z"), now);
  EXPECT_EQ(parse_time("2025-11-15T18:24:03.0079+01:30"), now);
  EXPECT_EQ(parse_time("2025-11-15T16:54Z"), now - Duration(3007));
  EXPECT_EQ(parse_time("2025-11-15T15:54:00-01:00"), now - Duration(3007));
  for (const std::string_view wrong :
       {"", "2025-11-15", "2025-11-15T16:54", "2025-13-15T16:54Z", "2025-02-30T16:54Z", "2025-11-15T24:00Z",
        "2025-11-15T16:60Z", "2025-11-15T16:54:60Z", "2025-11-15T16:54:03.Z", "2025-11-15T16:54ZZ", "2025-11-15 16:54Z",
        "2025-11-15T16:54+1:00", "2025-11-15T16:54+24:00", "2025-11-15T16:54:0", "yesterday"}) {
    EXPECT_FALSE(parse_time(wrong).has_value()) << wrong;
  }
}

TEST(ReadList, takes_times_and_what_is_among_a_state) {
  const auto list =
      read_list("state=lapsed&before=2025-11-15T16%3A54%3A03.007Z&after=2025-11-15T15%3A54%2B00%3A00", now);
  ASSERT_TRUE(list.has_value()) << list.error();
  EXPECT_EQ(list->among, Among::lapsed);
  EXPECT_EQ(list->filter.started_before, now);
  EXPECT_EQ(list->filter.started_after, now - std::chrono::hours(1) - Duration(3007));
  for (const std::string_view wrong : {"before=5m", "after=now"})
    EXPECT_FALSE(read_list(wrong, now).has_value()) << wrong;
}

TEST(FitPage, unsettled_keys_are_the_lapsed_ones_and_then_the_unknown_ones) {
  KeyInfo lapsed = unknown_key();
  lapsed.state = State::started;
  lapsed.lease_until = now;
  KeyInfo live = lapsed;
  live.lease_until = Time::max();
  ListRequest list = *read_list("state=unsettled", now);
  ASSERT_TRUE(choose_part(list));
  EXPECT_EQ(list.filter.state, State::started);
  KeyPage page{.keys = {live, lapsed}, .next = "7.1", .now = now};
  fit_page(page, list);
  ASSERT_EQ(page.keys.size(), 1U) << "an owner at work is left out";
  list = *read_list("state=unsettled&cursor=" + page.next, now);
  ASSERT_TRUE(choose_part(list));
  EXPECT_EQ(list.cursor, "7.1");
  EXPECT_EQ(list.filter.state, State::started);
  page = {.keys = {}, .next = "", .now = now};
  fit_page(page, list);
  EXPECT_FALSE(page.next.empty()) << "those that are unknown are still to come";
  list = *read_list("state=unsettled&cursor=" + page.next, now);
  ASSERT_TRUE(choose_part(list));
  EXPECT_EQ(list.filter.state, State::unknown);
  EXPECT_EQ(list.cursor, "");
  page = {.keys = {unknown_key()}, .next = "", .now = now};
  fit_page(page, list);
  EXPECT_EQ(page.keys.size(), 1U);
  EXPECT_TRUE(page.next.empty()) << "that was all";
  list = *read_list("state=unsettled&cursor=7.1", now);
  EXPECT_FALSE(choose_part(list)) << "a cursor of another list";
}

TEST(ReadBulk, takes_keys_as_they_were_seen) {
  const std::string id(64, 'a');
  const auto key = [&id](std::string_view more) {
    return R"({"keys":[{"id":")" + id + "\"" + std::string(more) + "]}";
  };
  const auto bulk = read_bulk(Action::release, key(R"(,"version":"v"})"));
  ASSERT_TRUE(bulk.has_value()) << bulk.error();
  ASSERT_EQ(bulk->keys.size(), 1U);
  EXPECT_EQ(to_hex(bulk->keys.front().id), id);
  EXPECT_EQ(bulk->keys.front().version, "v");
  const std::string one = R"({"id":")" + id + R"(","version":"v"})";
  std::string many = R"({"version":"","keys":[)";
  for (std::size_t i = 0; i <= most_bulk_keys; ++i) {
    many += (i == 0 ? "" : ",") + std::string(R"({"id":")") + std::string(61, '0') + std::to_string(100 + i) +
            R"(","version":"v"})";
  }
  for (const std::string& wrong :
       {std::string("[]"), std::string("{}"), std::string(R"({"keys":[]})"), std::string(R"({"keys":{}})"), key("}"),
        key(R"(,"version":""})"), std::string(R"({"keys":[{"id":"ab","version":"v"}]})"), many + "]}",
        "{\"keys\":[" + one + "," + one + "]}", R"({"version":"v","keys":[)" + one + "]}"}) {
    EXPECT_FALSE(read_bulk(Action::release, wrong).has_value()) << wrong;
  }
  EXPECT_FALSE(read_bulk(Action::resolve, key(R"(,"version":"v"})")).has_value()) << "how did they end?";
}

TEST(ReadFind, takes_a_request_or_a_claim) {
  const auto request = read_find(R"({"key":"k","path":"/p","headers":[["A","b"]]})");
  ASSERT_TRUE(request.has_value()) << request.error();
  ASSERT_TRUE(request->request.has_value());
  EXPECT_EQ(request->request->method, "POST");
  EXPECT_EQ(request->request->headers.front().second, "b");
  EXPECT_EQ(request->request->key, "k");
  EXPECT_EQ(read_find(R"({"path":"/p"})")->request->key, std::nullopt) << "derived";
  const auto claim = read_find(R"({"scope":"s","key":"k"})");
  ASSERT_TRUE(claim.has_value()) << claim.error();
  EXPECT_EQ(claim->tenant, "local");
  for (const std::string_view wrong :
       {"", "[]", "{}", R"({"key":1,"path":"/p"})", R"({"path":"/p","headers":{"A":"b"}})", R"({"scope":"s"})",
        R"({"path":"/p","keys":"x"})", R"({"path":"/p","headers":[["A"]]})"}) {
    EXPECT_FALSE(read_find(wrong).has_value()) << wrong;
  }
}

TEST(ReadAction, makes_the_response_that_retries_get) {
  const auto action = read_action(
      Action::resolve,
      R"({"version":"v","state":"succeeded","response":{"status":201,"headers":[["X-A","b"],["Connection","close"],)"
      R"(["Idempotency-Status","executed"],["original-request-id","x"],["Idempotency-Expires","x"],)"
      R"(["Idempotency-Replayed","true"],["Access-Control-Allow-Origin","*"],["Set-Cookie","s"]],)"
      R"("body_base64":"AAECAw=="}})");
  ASSERT_TRUE(action.has_value()) << action.error();
  const auto stored = decode(*action->outcome);
  ASSERT_TRUE(stored.has_value());
  EXPECT_EQ(stored->status, 201);
  EXPECT_EQ(stored->headers, "X-A: b\r\n") << "what only the gateway says, and of one reply, is left out";
  EXPECT_EQ(stored->reason, "Created");
  EXPECT_EQ(stored->body, std::string_view("\0\1\2\3", 4));
}

TEST(ReadAction, refuses_what_it_does_not_understand) {
  for (const std::string_view wrong :
       {"{}", R"({"version":""})", R"({"version":"v"})", R"({"version":"v","state":"unknown"})",
        R"({"version":"v","state":"failed","response":{"status":200}})",
        R"({"version":"v","state":"succeeded","response":{"status":199}})",
        R"({"version":"v","state":"succeeded","response":{"status":204,"body":"x"}})",
        R"({"version":"v","state":"succeeded","response":{"status":205,"body":"x"}})",
        R"({"version":"v","state":"succeeded","response":{"status":304,"body_base64":"AAAA"}})",
        R"({"version":"v","state":"succeeded","response":{"status":200,"headers":[["A b","c"]]}})",
        R"({"version":"v","state":"succeeded","response":{"status":200,"headers":[["A","c\r\nX: y"]]}})",
        R"({"version":"v","state":"succeeded","response":{"status":200,"body_base64":"%%%%"}})",
        R"({"version":"v","state":"succeeded","response":{"status":200,"body":"a","body_base64":"AAAA"}})"}) {
    EXPECT_FALSE(read_action(Action::resolve, wrong).has_value()) << wrong;
  }
  EXPECT_TRUE(read_action(Action::forget, R"({"version":"v"})").has_value());
  EXPECT_TRUE(
      read_action(Action::resolve, R"({"version":"v","state":"succeeded","response":{"status":204}})").has_value());
}

class EffectOf : public testing::Test {
 protected:
  EffectOf() {
    key_.nonce.bytes[0] = 1;
    resolve_.nonce = forget_.nonce = key_.nonce;
    resolve_.outcome = bytes("asked");
    seen_.status = OpStatus::done;
    stands_.state = State::unknown;
    stands_.nonce = key_.nonce;
  }
  static OutcomeBytes bytes(std::string_view text) { return std::make_shared<const std::string>(text); }
  Effect after(Op tried, OpStatus status, const std::optional<Record>& stands, StoreFault fault = {}) {
    tried.status = status;
    tried.fault = fault;
    seen_.record = stands;
    return effect_of(tried, key_, seen_);
  }

  KeyInfo key_ = unknown_key();
  Op resolve_{.verb = Verb::resolve};
  Op forget_{.verb = Verb::forget, .seen_state = State::unknown};
  Op seen_{.verb = Verb::lookup};
  Record stands_;
};

TEST_F(EffectOf, a_release_whose_answer_was_lost_is_done_if_the_key_is_gone) {
  for (const OpStatus status : {OpStatus::lost, OpStatus::failed}) {
    EXPECT_EQ(after(forget_, status, std::nullopt), Effect::done);
  }
  EXPECT_EQ(after(forget_, OpStatus::lost, stands_), Effect::none) << "the owner is back";
  EXPECT_EQ(after(forget_, OpStatus::failed, stands_), Effect::unknown) << "it may be on its way";
  EXPECT_EQ(after(forget_, OpStatus::failed, stands_, StoreFault::refused), Effect::none);
  EXPECT_EQ(after(forget_, OpStatus::failed, std::nullopt, StoreFault::full), Effect::none);
  seen_.status = OpStatus::failed;
  EXPECT_EQ(after(forget_, OpStatus::lost, std::nullopt), Effect::unknown) << "nobody knows";
}

TEST_F(EffectOf, a_release_before_a_new_claim_may_have_been_this_one) {
  stands_.nonce.bytes[0] = 2;
  stands_.state = State::started;
  stands_.started_at = key_.started_at + std::chrono::seconds(1);
  EXPECT_EQ(after(forget_, OpStatus::lost, stands_), Effect::unknown);
  stands_.attempt = Attempt{2};
  EXPECT_EQ(after(forget_, OpStatus::lost, stands_), Effect::unknown) << "the second since";
  stands_.previous_started_at = key_.started_at;
  EXPECT_EQ(after(forget_, OpStatus::lost, stands_), Effect::none) << "taken over";
  stands_.attempt = Attempt{3};
  EXPECT_EQ(after(forget_, OpStatus::lost, stands_), Effect::unknown) << "over and over";
}

TEST_F(EffectOf, what_was_taken_over_and_given_back_was_not_released) {
  stands_.nonce = Nonce();
  stands_.started_at = key_.started_at;
  EXPECT_EQ(after(forget_, OpStatus::lost, stands_), Effect::none);
  resolve_.final_state = State::failed;
  EXPECT_EQ(after(resolve_, OpStatus::lost, stands_), Effect::none);
  stands_.state = State::failed;
  EXPECT_EQ(after(resolve_, OpStatus::lost, stands_), Effect::unknown) << "it failed because we said so, or before";
  stands_.started_at += std::chrono::seconds(1);
  EXPECT_EQ(after(forget_, OpStatus::lost, stands_), Effect::unknown) << "of another life";
}

TEST_F(EffectOf, a_resolve_is_done_only_if_what_was_asked_for_stands) {
  stands_.state = State::succeeded;
  stands_.outcome = bytes("asked");
  EXPECT_EQ(after(resolve_, OpStatus::lost, stands_), Effect::done);
  stands_.body_kept = BodyKept::no;
  EXPECT_EQ(after(resolve_, OpStatus::lost, stands_), Effect::none);
  stands_.body_kept = BodyKept::yes;
  stands_.outcome = bytes("what another operator said");
  EXPECT_EQ(after(resolve_, OpStatus::lost, stands_), Effect::none);
  stands_.outcome = nullptr;
  EXPECT_EQ(after(resolve_, OpStatus::lost, stands_), Effect::none);
  stands_.state = State::failed;
  EXPECT_EQ(after(resolve_, OpStatus::lost, stands_), Effect::none);
  EXPECT_EQ(after(resolve_, OpStatus::lost, std::nullopt), Effect::unknown);
}

TEST_F(EffectOf, a_stop_is_done_only_if_the_stopped_response_stands) {
  const Op stop{.verb = Verb::finish, .nonce = key_.nonce, .body_kept = BodyKept::in_chunks, .outcome = bytes("part")};
  stands_.state = State::succeeded;
  stands_.body_kept = BodyKept::in_chunks;
  stands_.outcome = bytes("part");
  EXPECT_EQ(after(stop, OpStatus::failed, stands_), Effect::done);
  stands_.outcome = bytes("whole");
  EXPECT_EQ(after(stop, OpStatus::lost, stands_), Effect::none) << "it had ended";
  EXPECT_EQ(after(stop, OpStatus::lost, std::nullopt), Effect::unknown)
      << "a record that is gone was not stopped by us";
}

TEST_F(EffectOf, a_retry_after_a_failure_may_follow_ours) {
  resolve_.final_state = State::failed;
  resolve_.outcome = nullptr;
  stands_.nonce.bytes[0] = 2;
  stands_.state = State::started;
  stands_.attempt = Attempt{2};
  stands_.previous_started_at = key_.started_at;
  stands_.previous_state = State::failed;
  EXPECT_EQ(after(resolve_, OpStatus::lost, stands_), Effect::unknown);
  stands_.previous_state = State::unknown;
  EXPECT_EQ(after(resolve_, OpStatus::lost, stands_), Effect::none);
}

}  // namespace once::admin::keys_json_test
