// Callers that are not simply a header: verified claims, certificates, addresses; and what becomes of requests without.
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "core/operation.hpp"
#include "gateway/identity/scope.hpp"
#include "tests/unit/support/token_signer.hpp"

namespace once::gateway::caller_test {

using testing::HasSubstr;
using Kind = CallerSource::Kind;

const Time now = Time(std::chrono::seconds(1'700'000'000));
constexpr std::string_view challenge = "Bearer error=\"invalid_token\"";

class CallerTest : public testing::Test {
 protected:
  CallerTest() : cache_(verifier(), metrics_) {
    facts_.tokens = &cache_;
    facts_.now = now;
    facts_.peer = "203.0.113.9";
  }

  static std::shared_ptr<const JwtVerifier> verifier() {
    return std::make_shared<const JwtVerifier>(
        std::vector<JwtKey>{{.key = *SignatureKey::secret(test_secret), .id = ""}}, JwtRules(),
        std::vector<std::string>{"sub", "org"});
  }

  static Policy with(std::vector<CallerSource> sources, CallerMissing missing = CallerMissing::anonymous) {
    Policy policy;
    policy.caller = std::move(sources);
    policy.caller_missing = missing;
    return policy;
  }

  const http::RequestHead& head(const std::string& fields) {
    text_ = "POST / HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n";
    EXPECT_EQ(http::parse(text_, http::HeadLimits(), head_).parsed, http::Parsed::complete) << fields;
    return head_;
  }

  // The operation of a request that is served.
  OperationId id(const Policy& policy, const std::string& fields) {
    static const OperationIds ids("secret");
    const ScopeParts scope(policy, head(fields), facts_);
    const auto refused = caller_problem(policy, scope, facts_.token_header);
    EXPECT_FALSE(refused.has_value()) << refused->detail;
    return ids.make(scope.parts(), "key");
  }

  std::optional<Problem> refused(const Policy& policy, const std::string& fields) {
    const ScopeParts scope(policy, head(fields), facts_);
    return caller_problem(policy, scope, facts_.token_header);
  }

  static std::string bearer(std::string_view claims) {
    return "Authorization: Bearer " + hs256_token("{\"exp\":1700000600," + std::string(claims) + "}") + "\r\n";
  }

  Metrics metrics_;
  TokenCache cache_;
  CallerFacts facts_;
  std::string text_;
  http::RequestHead head_;
};

const CallerSource sub = {.kind = Kind::jwt, .name = "sub"};
const CallerSource org = {.kind = Kind::jwt, .name = "org"};
const CallerSource certificate = {.kind = Kind::mtls_subject, .name = ""};
const CallerSource address = {.kind = Kind::client_ip, .name = ""};
const CallerSource platform = {.kind = Kind::header, .name = "X-Platform"};

TEST_F(CallerTest, a_refreshed_token_is_the_same_caller_and_another_subject_is_not) {
  const Policy policy = with({sub});
  const OperationId first = id(policy, bearer(R"("sub":"a","jti":"1")"));
  EXPECT_EQ(id(policy, bearer(R"("sub":"a","jti":"2")")), first);
  EXPECT_NE(id(policy, bearer(R"("sub":"b","jti":"1")")), first);
  EXPECT_NE(id(policy, bearer(R"("sub":"a","iss":"other")")), first);
  EXPECT_NE(id(policy, ""), first);
  EXPECT_NE(id(policy, bearer(R"("sub":1)")), id(policy, bearer(R"("sub":"1")")));
  EXPECT_EQ(id(policy, bearer(R"("sub":null)")), id(policy, ""));
}

TEST_F(CallerTest, several_sources_are_a_tuple) {
  const Policy policy = with({platform, org, sub});
  const OperationId first = id(policy, "X-Platform: p\r\n" + bearer(R"("sub":"a","org":"b")"));
  EXPECT_EQ(id(policy, "X-Platform: p\r\n" + bearer(R"("org":"b","sub":"a","x":1)")), first);
  EXPECT_NE(id(policy, "X-Platform: q\r\n" + bearer(R"("sub":"a","org":"b")")), first);
  EXPECT_NE(id(policy, "X-Platform: p\r\n" + bearer(R"("sub":"b","org":"a")")), first);
  EXPECT_NE(id(policy, bearer(R"("sub":"a","org":"b")")), first);
  EXPECT_EQ(metrics_.tokens_verified.value() + metrics_.tokens_remembered.value(), 5U) << "one look a request";
}

TEST_F(CallerTest, a_token_that_is_there_and_not_good_is_refused_whatever_is_missing) {
  for (const CallerMissing missing : {CallerMissing::anonymous, CallerMissing::reject}) {
    const Policy policy = with({sub}, missing);
    const std::string forged = hs256_token(R"({"exp":1700000600})", R"({"alg":"HS256"})", std::string(32, 'x'));
    for (const std::string& value : {"Bearer " + forged, std::string("Bearer x"), std::string("Bearer"),
                                     std::string("bearer  "), "Bearer " + forged + " " + forged}) {
      const auto problem = refused(policy, "Authorization: " + value + "\r\n");
      ASSERT_TRUE(problem.has_value()) << value;
      EXPECT_EQ(problem->kind, ProblemKind::token_invalid);
      EXPECT_EQ(problem->status, 401);
      EXPECT_EQ(problem->challenge, challenge);
      EXPECT_THAT(problem->detail, testing::Not(HasSubstr(forged)));
    }
    facts_.now = now + std::chrono::hours(1);
    EXPECT_EQ(refused(policy, bearer(R"("sub":"a")"))->detail, "The token is not valid: it has expired.");
    facts_.now = now;
  }
}

TEST_F(CallerTest, two_tokens_are_ambiguous) {
  const auto problem = refused(with({sub}), bearer(R"("sub":"a")") + bearer(R"("sub":"a")"));
  ASSERT_TRUE(problem.has_value());
  EXPECT_EQ(problem->kind, ProblemKind::bad_request);
  EXPECT_EQ(problem->detail, "The request identifies its caller more than once: Authorization.");
}

TEST_F(CallerTest, another_scheme_is_no_token) {
  const Policy policy = with({sub});
  EXPECT_EQ(id(policy, "Authorization: Basic eDp5\r\n"), id(policy, ""));
  EXPECT_EQ(id(policy, "Authorization: Bearerx\r\n"), id(policy, ""));
}

TEST_F(CallerTest, in_a_header_of_its_own_the_token_stands_alone) {
  facts_.token_header = "X-Token";
  const Policy policy = with({sub}, CallerMissing::reject);
  const std::string token = hs256_token(R"({"exp":1700000600,"sub":"a"})");
  EXPECT_EQ(refused(policy, "x-token: " + token + "\r\nAuthorization: Bearer x\r\n"), std::nullopt);
  EXPECT_EQ(refused(policy, "X-Token: Bearer " + token + "\r\n")->kind, ProblemKind::token_invalid);
  EXPECT_EQ(refused(policy, bearer(R"("sub":"a")"))->kind, ProblemKind::caller_required);
}

TEST_F(CallerTest, a_payment_names_no_caller) {
  const CallerSource authorization;
  const CallerSource key = {.kind = Kind::header, .name = "X-Api-Key"};
  for (const std::string credentials : {"Payment eyJpZCI6MX0", "payment\teyJpZCI6Mn0", "Payment"}) {
    const std::string line = "Authorization: " + credentials + "\r\n";
    EXPECT_EQ(id(with({authorization}), line), id(with({authorization}), "")) << credentials;
    EXPECT_EQ(id(with({authorization, key}), line + "X-Api-Key: k\r\n"),
              id(with({authorization, key}), "X-Api-Key: k\r\n"));
    EXPECT_EQ(refused(with({authorization}, CallerMissing::reject), line)->kind, ProblemKind::caller_required);
    EXPECT_EQ(refused(with({key}, CallerMissing::reject), line + "X-Api-Key: k\r\n"), std::nullopt);
    EXPECT_EQ(refused(with({authorization}), line + line)->kind, ProblemKind::bad_request);
  }
  for (const std::string credentials : {"Bearer Payment", "Basic eDp5", "token", "OAuth token", "Payments x"}) {
    EXPECT_NE(id(with({authorization}), "Authorization: " + credentials + "\r\n"), id(with({authorization}), ""));
  }
}

TEST_F(CallerTest, a_signature_names_no_caller_and_is_not_anonymous) {
  const CallerSource authorization;
  const CallerSource key = {.kind = Kind::header, .name = "X-Api-Key"};
  for (const std::string credentials :
       {"AWS4-HMAC-SHA256 Credential=a, Signature=b", "aws4-hmac-sha256 x", "Signature keyId=\"a\",signature=\"b\"",
        "OAuth oauth_consumer_key=\"a\", oauth_signature=\"b\"", "Digest username=\"a\", nc=00000001",
        "Negotiate YII=", "NTLM TlRM"}) {
    const std::string line = "Authorization: " + credentials + "\r\n";
    for (const CallerMissing missing : {CallerMissing::anonymous, CallerMissing::reject}) {
      const auto problem = refused(with({authorization}, missing), line);
      ASSERT_TRUE(problem.has_value()) << credentials;
      EXPECT_EQ(problem->kind, ProblemKind::caller_required);
      EXPECT_THAT(problem->detail, HasSubstr("different in every retry"));
      EXPECT_THAT(problem->detail, testing::Not(HasSubstr("keyId")));
    }
    EXPECT_TRUE(refused(with({authorization, key}), line + "X-Api-Key: k\r\n").has_value()) << credentials;
    EXPECT_EQ(refused(with({key}, CallerMissing::reject), line + "X-Api-Key: k\r\n"), std::nullopt);
  }
}

TEST_F(CallerTest, a_missing_caller_is_refused_where_that_is_asked_for) {
  struct Case {
    std::vector<CallerSource> sources;
    std::string fields;
    std::string_view detail;
    std::string_view challenge;
  };
  for (const Case& c : {
           Case{{sub}, "", "A request with a key needs a token with the claim sub.", "Bearer"},
           Case{{sub}, bearer(R"("org":"o")"), "A request with a key needs a token with the claim sub.", "Bearer"},
           Case{{sub}, bearer(R"("sub":"")"), "A request with a key needs a token with the claim sub.", "Bearer"},
           Case{{platform, sub}, bearer(R"("sub":"a")"), "A request with a key needs the header X-Platform.", "Bearer"},
           Case{{platform}, "", "A request with a key needs the header X-Platform.", ""},
           Case{{platform}, "X-Platform:\r\n", "A request with a key needs the header X-Platform.", ""},
           Case{{{.kind = Kind::cookie, .name = "s"}},
                "Cookie: t=1\r\n",
                "A request with a key needs the cookie s.",
                ""},
           Case{{certificate}, "", "A request with a key needs a client certificate.", ""},
       }) {
    EXPECT_EQ(refused(with(c.sources), c.fields), std::nullopt) << c.detail;
    const auto problem = refused(with(c.sources, CallerMissing::reject), c.fields);
    ASSERT_TRUE(problem.has_value()) << c.detail;
    EXPECT_EQ(problem->kind, ProblemKind::caller_required);
    EXPECT_EQ(problem->detail, c.detail);
    EXPECT_EQ(problem->challenge, c.challenge);
  }
  EXPECT_EQ(refused(with({sub}, CallerMissing::reject), bearer(R"("sub":"a")")), std::nullopt);
  EXPECT_EQ(refused(with({address}, CallerMissing::reject), ""), std::nullopt);
}

TEST_F(CallerTest, a_certificate_is_a_caller) {
  const Policy policy = with({certificate}, CallerMissing::reject);
  facts_.tls_subject = "CN=a";
  const OperationId first = id(policy, "");
  facts_.tls_subject = "CN=b";
  EXPECT_NE(id(policy, ""), first);
  facts_.tls_subject = "";
  EXPECT_EQ(refused(policy, "")->kind, ProblemKind::caller_required);
}

TEST_F(CallerTest, an_address_is_a_caller_and_only_trusted_proxies_name_others) {
  const Policy policy = with({address});
  const OperationId direct = id(policy, "");
  EXPECT_EQ(id(policy, "X-Forwarded-For: 1.2.3.4\r\n"), direct) << "anybody can say that";
  http::AddressSet proxies;
  proxies.add("10.0.0.0/8");
  facts_.trusted_proxies = &proxies;
  EXPECT_EQ(id(policy, "X-Forwarded-For: 1.2.3.4\r\n"), direct);
  facts_.peer = "10.0.0.1";
  EXPECT_EQ(id(policy, "X-Forwarded-For: 203.0.113.9\r\n"), direct);
  EXPECT_EQ(id(policy, "X-Forwarded-For: 6.6.6.6\r\nx-forwarded-for: 203.0.113.9, 10.0.0.2\r\n"), direct);
  EXPECT_NE(id(policy, "X-Forwarded-For: 203.0.113.9, 6.6.6.6\r\n"), direct);
  facts_.peer = "unix";
  EXPECT_EQ(refused(with({address}, CallerMissing::reject), "")->detail, "A request with a key needs an address.");
}

TEST_F(CallerTest, a_header_of_a_proxy_is_missing_unless_the_peer_is_a_trusted_proxy) {
  const CallerSource organisation = {.kind = Kind::proxy_header, .name = "X-Org-Id"};
  const Policy policy = with({organisation});
  const OperationId nobody = id(policy, "");
  EXPECT_EQ(id(policy, "X-Org-Id: acme\r\n"), nobody) << "anybody can say that";
  EXPECT_EQ(id(policy, "X-Org-Id: acme\r\nX-Org-Id: other\r\n"), nobody) << "nobody believes either";
  const Policy strict = with({organisation}, CallerMissing::reject);
  EXPECT_EQ(refused(strict, "X-Org-Id: acme\r\n")->detail,
            "A request with a key needs the header X-Org-Id from a trusted proxy.");
  facts_.trust = PeerTrust::trusted_proxy;
  EXPECT_NE(id(policy, "X-Org-Id: acme\r\n"), nobody);
  EXPECT_NE(id(policy, "X-Org-Id: acme\r\n"), id(policy, "X-Org-Id: other\r\n"));
  EXPECT_EQ(id(strict, "X-Org-Id: acme\r\n"), id(policy, "X-Org-Id: acme\r\n"));
  EXPECT_NE(id(policy, "X-Org-Id: acme\r\n"),
            id(with({{.kind = Kind::header, .name = "X-Org-Id"}}), "X-Org-Id: acme\r\n"));
  EXPECT_EQ(refused(policy, "X-Org-Id: a\r\nx-org-id: b\r\n")->kind, ProblemKind::bad_request);
}

// What is stored under them would be forgotten.
TEST_F(CallerTest, where_a_caller_was_read_from_is_part_of_it) {
  Policy policy = with({{.kind = Kind::header, .name = "Authorization"}, {.kind = Kind::cookie, .name = "s"}});
  const ScopeParts scope(policy, head("Authorization: a\r\nCookie: t=1\r\n"));
  EXPECT_THAT(scope.parts(), testing::ElementsAre("host", "h", "", "", "caller", "header", "Authorization", "given",
                                                  "a", "cookie", "s", "absent", "", "method", "POST", "path", "/"));
}

}  // namespace once::gateway::caller_test
