// Which operation a request is: routes, keys, callers, ids, and the problems on the way.
#include "gateway/identity/identify.hpp"

#include <bit>

#include <gmock/gmock.h>

#include "core/fingerprint.hpp"
#include "core/headers.hpp"
#include "gateway/identity/life_marker.hpp"
#include "http/endpoint.hpp"
#include "tests/unit/gateway/identity/identity_world.hpp"
#include "tests/unit/support/token_signer.hpp"

namespace once::gateway::identify_test {

using testing::HasSubstr;
using Kind = RequestKey::Kind;

class IdentifyTest : public testing::Test, protected IdentityWorld {
 protected:
  RoutedRequest routed(const std::string& line, const std::string& fields = "") {
    return route_request(rules(), request(line, fields), scratch);
  }

  // Of the request that request() made last.
  RequestKey key() { return find_request_key(&settings.routes.front().policy, head); }

  // As if the request had come in and its body were here.
  std::expected<OperationId, Problem> identified(const std::string& fields, std::string_view body = "") {
    const RequestFacts facts = request("POST /payments", fields);
    const IdentityRules by = rules();
    const RoutedRequest found = route_request(by, facts, scratch);
    EXPECT_EQ(found.refused, std::nullopt);
    const RequestKey its_key = find_request_key(found.route.policy, head);
    const RequestIdentity identity(by, facts, *found.route.policy);
    return identity.operation(its_key.given, body);
  }

  OperationId operation(const std::string& fields, std::string_view body = "") {
    const auto id = identified(fields, body);
    EXPECT_TRUE(id.has_value()) << id.error().detail;
    return id.value_or(OperationId());
  }
};

TEST_F(IdentifyTest, a_request_takes_the_first_route_that_fits_its_normal_path) {
  route("/v1/payments");
  route("/**");
  const RoutedRequest found = routed("POST /v1/x/../%70ayments");
  EXPECT_EQ(found.refused, std::nullopt);
  EXPECT_EQ(found.route.index, 0U);
  EXPECT_EQ(found.route.route, "/v1/payments");
  EXPECT_EQ(found.path, "/v1/payments");
  EXPECT_EQ(routed("POST /v1/other").route.index, 1U);
}

TEST_F(IdentifyTest, without_a_route_there_is_no_policy_and_no_problem) {
  route("/v1/payments");
  const RoutedRequest found = routed("POST /other");
  EXPECT_EQ(found.refused, std::nullopt);
  EXPECT_EQ(found.route.policy, nullptr);
  EXPECT_EQ(found.route.index, settings.routes.size());
}

TEST_F(IdentifyTest, a_path_that_cannot_be_read_has_no_route) {
  route("/**");
  const RoutedRequest found = routed("POST /../x");
  ASSERT_TRUE(found.refused.has_value());
  EXPECT_EQ(found.refused->kind, ProblemKind::bad_request);
  EXPECT_EQ(found.route.policy, nullptr);
  EXPECT_EQ(found.route.index, settings.routes.size());
}

// The route is known all the same: it is counted there, and answered in its words.
TEST_F(IdentifyTest, what_could_be_another_request_at_the_backend_is_refused) {
  route("/v1/payments");
  route("/**");
  struct Case {
    std::string line;
    std::string fields;
    std::string_view detail;
  };
  for (const Case& c : {
           Case{"post /v1/payments", "", "in capitals"},
           Case{"POST /v1%2Fpayments", "", "an encoded slash"},
           Case{"POST //x/v1/payments", "", "two slashes"},
           Case{"POST /x", "Connection: Idempotency-Key\r\nIdempotency-Key: k\r\n", "Idempotency-Key"},
           Case{"POST https://api.test/x", "", "scheme"},
       }) {
    const RoutedRequest found = routed(c.line, c.fields);
    ASSERT_TRUE(found.refused.has_value()) << c.line;
    EXPECT_THAT(found.refused->detail, HasSubstr(c.detail));
    EXPECT_NE(found.route.policy, nullptr) << c.line;
  }
}

// Servlets take parameters off before or after they decode the rest; some take a backslash for a slash. A parser lets
// no backslash through in some clients; escaped, it is the same one. Of the habits of the last five paths no two alone
// lead to the route.
TEST_F(IdentifyTest, parameters_hide_no_route_wherever_a_backend_ends_them) {
  route("/v1/charges/refunds").key.required = Required::yes;
  route("/**");
  for (const std::string path :
       {"/v1/charges;x\\refunds", "/v1/charges;x%5Crefunds", "/v1/charges;x%2Frefunds", "/v1;a%2Fb\\charges;c/refunds",
        "/v1/charges/refunds;x\\y", "/v1/charges/refunds;x%2Fy", "/v1/charges\\refunds\\", "/v1/charges%2Frefunds%2F",
        "/v1%2Fcharges%5Crefunds;x",       // an encoded slash, a backslash, parameters
        "/v1%2fcharges\\refunds;x=y",      //
        "/v1/charges;x%2F%5Crefunds",      // parameters that end at the slash; a backslash
        "/v1%2Fcharges;x%5Crefunds",       // and that end at a backslash
        "/v1;a%2Fcharges;x%5Crefunds"}) {  // all five
    const RoutedRequest found = routed("POST " + path);
    ASSERT_TRUE(found.refused.has_value()) << path;
    EXPECT_THAT(found.refused->detail, HasSubstr("a semicolon")) << path;
  }
  EXPECT_EQ(routed("POST /v1/charges;x\\y").refused, std::nullopt);
}

TEST_F(IdentifyTest, a_url_with_the_scheme_of_its_connection_is_taken) {
  route("/**");
  RequestFacts facts = request("POST https://api.test/x");
  facts.transport = Origin::Transport::tls;
  EXPECT_EQ(route_request(rules(), facts, scratch).refused, std::nullopt);
  facts.transport = Origin::Transport::plain;
  facts.trust = PeerTrust::trusted_proxy;
  EXPECT_EQ(route_request(rules(), facts, scratch).refused, std::nullopt);
}

TEST_F(IdentifyTest, a_malformed_forwarded_counts_only_from_a_trusted_proxy) {
  route("/**");
  RequestFacts facts = request("POST /x", "Forwarded: host=\"a\r\n");
  EXPECT_EQ(route_request(rules(), facts, scratch).refused, std::nullopt);
  facts.trust = PeerTrust::trusted_proxy;
  EXPECT_TRUE(route_request(rules(), facts, scratch).refused.has_value());
}

TEST_F(IdentifyTest, detours_are_refused_where_the_path_is_cut_or_put_behind_another) {
  route("/api/**");
  EXPECT_EQ(routed("POST /api/x/../y").refused, std::nullopt);
  settings.routes.front().strip_prefix = "/api";
  EXPECT_TRUE(routed("POST /api/x/../y").refused.has_value());
  settings.routes.front().strip_prefix = "";
  settings.upstreams.front().base_path = "/base";
  EXPECT_TRUE(routed("POST /api/x/../y").refused.has_value());
}

TEST_F(IdentifyTest, fields_in_disguise_are_gone_when_the_route_is_known) {
  route("/**");
  EXPECT_EQ(routed("POST /x", "Idempotency_Key: k\r\nX-Original-URL: /y\r\nX-Other: 1\r\n").refused, std::nullopt);
  EXPECT_EQ(head.find("Idempotency_Key"), std::nullopt);
  EXPECT_EQ(head.find("X-Original-URL"), std::nullopt);
  EXPECT_EQ(head.find("X-Other"), "1");
}

TEST_F(IdentifyTest, a_key_is_given_quoted_or_bare) {
  route("/**");
  for (const std::string value : {"abc", "\"abc\"", " abc "}) {
    request("POST /x", "idempotency-key:" + value + "\r\n");
    const RequestKey found = key();
    EXPECT_EQ(found.kind, Kind::given);
    EXPECT_EQ(found.given->view(), "abc");
  }
}

TEST_F(IdentifyTest, a_method_that_is_not_covered_ignores_its_key) {
  Policy& policy = route("/**");
  policy.methods = methods({Method::post, Method::get});
  for (const std::string line : {"GET /x", "PUT /x"}) {
    request(line, "Idempotency-Key: k\r\n");
    EXPECT_EQ(key().kind, Kind::not_covered) << line;
    EXPECT_TRUE(key().ignored) << line;
    request(line);
    EXPECT_EQ(key().kind, Kind::not_covered) << line;
    EXPECT_FALSE(key().ignored) << line;
  }
  request("POST /x", "Idempotency-Key: k\r\n");
  EXPECT_EQ(find_request_key(nullptr, head).kind, Kind::not_covered);
  EXPECT_TRUE(find_request_key(nullptr, head).ignored);
}

TEST_F(IdentifyTest, a_request_without_a_key) {
  Policy& policy = route("/**");
  request("POST /x");
  EXPECT_EQ(key().kind, Kind::none);
  policy.key.required = Required::yes;
  EXPECT_EQ(key().kind, Kind::refused);
  EXPECT_EQ(key().problem->kind, ProblemKind::key_required);
  policy.key.derive = {{.kind = KeySource::Kind::json, .name = "/order"}};
  EXPECT_EQ(key().kind, Kind::derived);
}

TEST_F(IdentifyTest, two_keys_and_keys_that_cannot_be_read_are_refused) {
  Policy& policy = route("/**");
  policy.key.max_length = 3;
  policy.key.derive = {{.kind = KeySource::Kind::json, .name = "/order"}};
  for (const std::string fields : {"Idempotency-Key: a\r\nIdempotency-Key: a\r\n", "Idempotency-Key:\r\n",
                                   "Idempotency-Key: abcd\r\n", "Idempotency-Key: \"a\r\n"}) {
    request("POST /x", fields);
    EXPECT_EQ(key().kind, Kind::refused) << fields;
    EXPECT_EQ(key().problem->kind, ProblemKind::key_invalid) << fields;
    EXPECT_THAT(key().problem->detail, HasSubstr("Idempotency-Key: ")) << fields;
  }
}

TEST_F(IdentifyTest, the_id_is_that_of_scope_and_key) {
  route("/**");
  const auto id = operation("Authorization: a\r\nIdempotency-Key: k\r\n");
  EXPECT_EQ(id, operation("Idempotency-Key: \"k\"\r\nAuthorization: a\r\n", "another body"));
  EXPECT_NE(id, operation("Authorization: b\r\nIdempotency-Key: k\r\n"));
  EXPECT_NE(id, operation("Authorization: a\r\nIdempotency-Key: l\r\n"));
  // Stored ids must stay what they are.
  const std::vector<std::string_view> parts = {"host",   "api.test",      "",         "",  "caller",
                                               "header", "Authorization", "given",    "a", "method",
                                               "POST",   "path",          "/payments"};
  EXPECT_EQ(id, ids.make(parts, "k"));
}

TEST_F(IdentifyTest, shadow_mode_has_ids_of_its_own) {
  Policy& policy = route("/**");
  const auto enforced = operation("Authorization: a\r\nIdempotency-Key: k\r\n");
  policy.mode = Mode::shadow;
  const auto shadowed = operation("Authorization: a\r\nIdempotency-Key: k\r\n");
  EXPECT_NE(enforced, shadowed);
  const std::vector<std::string_view> parts = {"host",   "api.test",      "",          "",      "caller",
                                               "header", "Authorization", "given",     "a",     "method",
                                               "POST",   "path",          "/payments", "shadow"};
  EXPECT_EQ(shadowed, ids.make(parts, "k"));
}

TEST_F(IdentifyTest, a_derived_key_comes_from_the_body) {
  Policy& policy = route("/**");
  policy.key.derive = {{.kind = KeySource::Kind::json, .name = "/order"}};
  const auto id = operation("", R"({"order": 7})");
  EXPECT_EQ(id, operation("", R"({"x": 1, "order": 7.0})"));
  EXPECT_NE(id, operation("", R"({"order": 8})"));
  EXPECT_NE(id, operation("Idempotency-Key: k\r\n", R"({"order": 7})"));
  const auto missing = identified("", R"({"x": 1})");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().kind, ProblemKind::key_required);
  EXPECT_THAT(missing.error().detail, HasSubstr("json:/order"));
}

TEST_F(IdentifyTest, of_a_header_that_comes_twice_no_key_is_derived) {
  route("/**").key.derive = {{.kind = KeySource::Kind::header, .name = "X-Order"}};
  const auto twice = identified("X-Order: 7\r\nX-Order: 8\r\n", "");
  ASSERT_FALSE(twice.has_value());
  EXPECT_EQ(twice.error().kind, ProblemKind::key_required);
}

// Otherwise a change of the settings would make one operation of two.
TEST_F(IdentifyTest, a_derived_key_says_where_its_values_come_from) {
  Policy& policy = route("/**");
  policy.key.derive = {{.kind = KeySource::Kind::header, .name = "X-Order"}};
  const auto by_order = operation("X-Order: 7\r\nX-Job: 7\r\n", "");
  policy.key.derive = {{.kind = KeySource::Kind::header, .name = "X-Job"}};
  EXPECT_NE(by_order, operation("X-Order: 7\r\nX-Job: 7\r\n", ""));
}

TEST_F(IdentifyTest, the_caller_is_checked_before_the_body_is_here) {
  Policy& policy = route("/**");
  policy.caller_missing = CallerMissing::reject;
  const RequestFacts facts = request("POST /x", "Idempotency-Key: k\r\n");
  const RequestIdentity nobody(rules(), facts, policy);
  EXPECT_EQ(nobody.caller_problem()->kind, ProblemKind::caller_required);
  EXPECT_TRUE(nobody.is_anonymous());
  EXPECT_TRUE(nobody.caller().empty());
  policy.caller_missing = CallerMissing::anonymous;
  EXPECT_EQ(nobody.caller_problem(), std::nullopt);
  request("POST /x", "Authorization: a\r\nAuthorization: b\r\n");
  EXPECT_EQ(RequestIdentity(rules(), facts, policy).caller_problem()->kind, ProblemKind::bad_request);
}

// Clients without a complete caller share an anonymous one. Nothing of theirs is looked up, stopped, replayed unread or
// counted as if it belonged to a known caller.
TEST_F(IdentifyTest, part_of_a_caller_is_none) {
  Policy& policy = route("/**");
  policy.caller = {{.kind = CallerSource::Kind::header, .name = "Authorization"},
                   {.kind = CallerSource::Kind::cookie, .name = "sid"}};
  std::vector<OperationId> seen;
  for (const std::vector<std::string>& same :
       {std::vector<std::string>{"", "Authorization:\r\n", "Authorization: Bearer\r\nCookie: sid=\r\n"},
        {"Authorization: a\r\n", "Authorization: a\r\nCookie: sid=\r\n", "Authorization: a\r\nCookie: sid=\"\"\r\n"},
        {"Cookie: sid=1\r\n", "Authorization:\r\nCookie: sid=1\r\n"}}) {
    std::optional<OperationId> first;
    for (const std::string& fields : same) {
      const RequestFacts facts = request("POST /x", fields);
      const RequestIdentity identity(rules(), facts, policy);
      EXPECT_TRUE(identity.is_anonymous()) << fields;
      EXPECT_TRUE(identity.caller().empty()) << fields;
      const OperationId id = identity.operation(Key::viewing("k"), "").value();
      EXPECT_EQ(id, first.value_or(id)) << fields;
      first = id;
    }
    EXPECT_THAT(seen, testing::Not(testing::Contains(*first))) << same.front();
    seen.push_back(*first);
  }
  const RequestFacts facts = request("POST /x", "Authorization: a\r\nCookie: sid=1\r\n");
  const RequestIdentity somebody(rules(), facts, policy);
  EXPECT_FALSE(somebody.is_anonymous());
  EXPECT_THAT(somebody.caller(), testing::IsSupersetOf({"a", "1"}));
}

TEST_F(IdentifyTest, certificates_addresses_and_proxy_headers_are_callers) {
  Policy& policy = route("/**");
  policy.caller = {{.kind = CallerSource::Kind::mtls_subject, .name = ""}};
  RequestFacts facts = request("POST /x", "X-Org-Id: acme\r\n");
  EXPECT_TRUE(RequestIdentity(rules(), facts, policy).is_anonymous());
  facts.tls_subject = "CN=a";
  facts.tls_issuer = "CN=ca";
  EXPECT_THAT(RequestIdentity(rules(), facts, policy).caller(), testing::Contains("CN=a"));
  EXPECT_THAT(RequestIdentity(rules(), facts, policy).caller(), testing::Contains("CN=ca"));
  policy.caller = {{.kind = CallerSource::Kind::client_ip, .name = ""}};
  EXPECT_THAT(RequestIdentity(rules(), facts, policy).caller(), testing::Contains("203.0.113.9"));
  policy.caller = {{.kind = CallerSource::Kind::proxy_header, .name = "X-Org-Id"}};
  EXPECT_TRUE(RequestIdentity(rules(), facts, policy).is_anonymous());
  facts.trust = PeerTrust::trusted_proxy;
  EXPECT_THAT(RequestIdentity(rules(), facts, policy).caller(), testing::Contains("acme"));
}

TEST_F(IdentifyTest, a_token_is_judged_by_the_clock) {
  Metrics metrics;
  TokenCache cache(
      std::make_shared<const JwtVerifier>(std::vector<JwtKey>{{.key = *SignatureKey::secret(test_secret), .id = ""}},
                                          JwtRules(), std::vector<std::string>{"sub"}),
      metrics);
  tokens = &cache;
  settings.tokens.header = "X-Token";
  Policy& policy = route("/**");
  policy.caller = {{.kind = CallerSource::Kind::jwt, .name = "sub"}};
  clock.set(Time(std::chrono::seconds(1'700'000'000)));
  const RequestFacts facts = request("POST /x", "X-Token: " + hs256_token(R"({"exp":1700000600,"sub":"a"})") + "\r\n");
  EXPECT_EQ(RequestIdentity(rules(), facts, policy).caller_problem(), std::nullopt);
  clock.advance(std::chrono::hours(1));
  EXPECT_EQ(RequestIdentity(rules(), facts, policy).caller_problem()->kind, ProblemKind::token_invalid);
}

TEST_F(IdentifyTest, the_fingerprint_is_that_of_method_target_type_and_body) {
  const Policy& policy = route("/**");
  const RequestFacts facts = request("POST /x?y=1", "Content-Type: text/plain; charset=utf-8\r\n");
  const RequestIdentity identity(rules(), facts, policy);
  EXPECT_EQ(identity.fingerprint("body"), fingerprint(policy.fingerprint, "POST", "/x?y=1", "text/plain", "body"));
  EXPECT_NE(identity.fingerprint("body"), identity.fingerprint("other"));
}

TEST_F(IdentifyTest, hosts_that_are_the_same_make_one_operation) {
  route("/**");
  const auto of_host = [&](const std::string& host) {
    text = "POST /payments HTTP/1.1\r\nHost: " + host + "\r\nIdempotency-Key: k\r\n\r\n";
    EXPECT_EQ(http::parse(text, http::HeadLimits(), head).parsed, http::Parsed::complete);
    const RequestFacts facts{.head = head, .peer = "203.0.113.9"};
    return RequestIdentity(rules(), facts, settings.routes.front().policy).operation(Key::viewing("k"), "").value();
  };
  EXPECT_EQ(of_host("a.test"), of_host("A.test:80"));
  EXPECT_NE(of_host("a.test"), of_host("b.test"));
  settings.hosts = HostNames({"a.test b.test"});
  EXPECT_EQ(of_host("a.test"), of_host("b.test"));
}

TEST_F(IdentifyTest, new_keys_are_charged_to_the_network_of_a_caller_that_is_not_proven) {
  Policy& policy = route("/**");
  RequestFacts facts = request("POST /x", "Authorization: a\r\nX-Forwarded-For: 198.51.100.7\r\n");
  const auto charged = [&] { return RequestIdentity(rules(), facts, policy).limited_address(); };
  const auto network = [](std::string_view address) {
    return std::bit_cast<TenantTag>(http::network_of(*http::IpAddress::parse(address)));
  };
  EXPECT_EQ(charged(), std::nullopt) << "nothing is limited";
  settings.limits.address.new_keys = 1;
  EXPECT_EQ(charged(), network("203.0.113.9"));
  settings.trusted_proxies.add("203.0.113.0/24");
  EXPECT_EQ(charged(), network("198.51.100.7"));
  facts.peer = http::unix_peer;
  EXPECT_EQ(charged(), std::nullopt);
  policy.caller = {{.kind = CallerSource::Kind::mtls_subject, .name = ""}};
  facts.peer = "203.0.113.9";
  EXPECT_EQ(charged(), network("198.51.100.7"));
  facts.tls_subject = "CN=a";
  EXPECT_EQ(charged(), std::nullopt) << "the certificate proves who asks";
}

TEST_F(IdentifyTest, a_tenant_is_the_tag_of_the_caller_or_nothing) {
  TenantMemo memo;
  const std::vector<std::string_view> caller = {"header", "Authorization", "given", "a"};
  const TenantTag tag = ids.tenant(caller);
  EXPECT_EQ(tenant_of(caller, ids, memo), std::string_view(tag.data(), tag.size()));
  EXPECT_EQ(tenant_of({}, ids, memo), "");
}

TEST_F(IdentifyTest, a_life_belongs_to_host_and_path_whatever_the_caller) {
  const Policy& policy = route("/**");
  const RequestFacts facts = request("DELETE /x", "Authorization: a\r\n");
  const OperationId marker = life_marker(ids, RequestIdentity(rules(), facts, policy).host(), "/x");
  request("POST /x", "Authorization: b\r\n");
  EXPECT_EQ(life_marker(ids, RequestIdentity(rules(), facts, policy).host(), "/x"), marker);
  EXPECT_NE(life_marker(ids, RequestIdentity(rules(), facts, policy).host(), "/y"), marker);
}

}  // namespace once::gateway::identify_test
