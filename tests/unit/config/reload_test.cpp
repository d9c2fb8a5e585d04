#include "config/reload.hpp"

#include <gtest/gtest.h>

#include "config/load.hpp"
#include "config/prepare.hpp"

namespace once::config::reload_test {

Config config_of(std::string_view text) {
  auto config = parse(text, "once.yaml");
  EXPECT_TRUE(config.has_value());
  return config.value_or(Config());
}

using Names = std::vector<std::string>;

TEST(Reload, TakesOverHowRequestsAreServed) {
  const Config running = config_of("upstreams: {default: 'http://a:1'}\n");
  const Config wanted = config_of(
      "upstreams: {default: 'http://b:2'}\nlimits: {max_connections: 5}\ntimeouts: {drain: 1s}\npool: {idle_max: 3s}\n"
      "tls: {min_version: 1.3}\nupstream_tls: {verify: no}\nlog: {level: error}\ndefaults: {ttl: 1h}\nroutes: [{path: "
      "/x}]\njwt: {keys: /k}\ntrusted_proxies: 10.0.0.0/8\n");
  EXPECT_EQ(needs_restart(running, wanted), Names());
}

TEST(Reload, NamesEveryOtherSettingThatDiffers) {
  const Config running = config_of("");
  const Config wanted = config_of(
      "listen: 127.0.0.1:1\ntls: {listen: 127.0.0.1:2}\nthreads: 7\nstore: 'memory:'\njournal: {sync: never}\n");
  EXPECT_EQ(needs_restart(running, wanted), (Names{"listen", "threads", "store", "tls.listen", "journal.sync"}));
  EXPECT_EQ(needs_restart(wanted, wanted), Names());
}

TEST(Reload, SeesWhatIsNotShown) {
  const Config running = config_of("store: 'postgres://once:one@db/once'\n");
  EXPECT_EQ(needs_restart(running, config_of("store: 'postgres://once:two@db/once'\n")), Names{"store"});
  Config other_secret = running;
  other_secret.secret = "another secret of the file";
  EXPECT_EQ(needs_restart(running, other_secret), Names{"the secret"});
  Config other_token = running;
  other_token.admin_token_secret = "another token of the file";
  EXPECT_EQ(needs_restart(running, other_token), Names{"the contents of admin_token"});
  Config other_keys = running;
  other_keys.sealing_secrets = {"another key of the file"};
  EXPECT_EQ(needs_restart(running, other_keys), Names{"the contents of encryption.keys"});
}

std::string forgotten(std::string_view running, std::string_view wanted) {
  std::string out;
  Config before = config_of(running);
  Config after = config_of(wanted);
  check(before);
  check(after);
  for (const std::string& line : forgotten_keys(before, after)) out += line + "\n";
  return out;
}

TEST(ForgottenKeys, NamesRouteAndSetting) {
  const std::string_view running = "routes: [{path: /pay/**, caller: header:X-User}, {path: /**}]\n";
  EXPECT_EQ(forgotten(running, running), "");
  EXPECT_EQ(
      forgotten(running, "routes: [{path: /pay/**, caller: header:X-User, ttl: 2h, on_unknown: retry}, {path: /**}]\n"),
      "")
      << "how long and what then is not whose";
  EXPECT_EQ(
      forgotten(running, "routes: [{path: /pay/**, caller: cookie:sid}, {path: /**, scope: path}]\n"),
      "route /pay/**: caller changes from header:X-User to cookie:sid: its keys are lost, and a retry of an earlier "
      "request executes again\n"
      "route /**: scope changes from caller, method, path to path: its keys are lost, and a retry of an earlier "
      "request executes again\n");
  EXPECT_EQ(
      forgotten("routes: [{path: /a, fingerprint: {body: raw}}]\n",
                "routes: [{path: /a, fingerprint: {body: json}}]\n"),
      "route /a: fingerprint.body changes from raw to json: a retry of an earlier request is refused as a mismatch\n");
}

TEST(ForgottenKeys, HeadersOfTheScopeAreInTheId) {
  EXPECT_EQ(forgotten("routes: [{path: /**}]\n", "routes: [{path: /**, scope_headers: [X-Account]}]\n"),
            "route /**: scope_headers changes from none to X-Account: its keys are lost, and a retry of an earlier "
            "request executes again\n");
}

TEST(ForgottenKeys, SeesWhatADialectBringsAndWhatNoRequestNotices) {
  const std::string told = forgotten("defaults: {dialect: ietf}\n", "defaults: {dialect: platform}\n");
  EXPECT_TRUE(
      told.contains("route /**: key.header changes from Idempotency-Key to X-Idempotency-Key, by dialect platform "
                    "instead of ietf"))
      << told;
  EXPECT_TRUE(told.contains("scope changes")) << told;
  EXPECT_EQ(forgotten("routes: [{path: /a, scope: path, caller: header:X}]\n",
                      "routes: [{path: /a, scope: path, caller: cookie:y}]\n"),
            "")
      << "the caller is not in the id";
  EXPECT_EQ(
      forgotten("routes: [{path: /a, scope: [caller, path]}]\n", "routes: [{path: /a, scope: [caller, path, life]}]\n"),
      "");
}

TEST(ForgottenKeys, FollowsRequestsToTheRouteThatTakesThem) {
  EXPECT_EQ(forgotten("routes: [{path: /a/*, caller: cookie:s}, {path: /**}]\n", "routes: [{path: /**}]\n"),
            "route /a/*: caller changes from cookie:s to header:Authorization: its keys are lost, and a retry of an "
            "earlier request executes again\n");
  EXPECT_EQ(forgotten("routes: [{path: /**}]\n", "routes: [{path: /a, caller: cookie:s}, {path: /**}]\n"),
            "route /a: caller changes from header:Authorization to cookie:s: its keys are lost, and a retry of an "
            "earlier request executes again\n");
  EXPECT_EQ(forgotten("routes: [{path: /**}]\n", "routes: [{path: /a}, {path: /**}]\n"), "");
  EXPECT_EQ(
      forgotten("routes: [{path: /a}]\n", "routes: [{path: /b}]\n"),
      "route /a: POST is no longer protected: its keys are lost, and a retry of an earlier request executes again\n"
      "route /a: PATCH is no longer protected: its keys are lost, and a retry of an earlier request executes again\n");
  EXPECT_EQ(forgotten("routes: [{path: /a}]\n", "routes: [{path: /a, methods: POST}]\n"),
            "route /a: PATCH is no longer protected: its keys are lost, and a retry of an earlier request executes "
            "again\n");
}

TEST(ForgottenKeys, FollowsRequestsToRoutesByHost) {
  EXPECT_EQ(forgotten("routes: [{path: /**}]\n", "routes: [{path: /**, host: a.test}, {path: /**}]\n"), "");
  EXPECT_EQ(
      forgotten("routes: [{path: /**}]\n", "routes: [{path: /**, host: a.test, caller: cookie:s}, {path: /**}]\n"),
      "route a.test/**: caller changes from header:Authorization to cookie:s: its keys are lost, and a retry of an "
      "earlier request executes again\n");
  EXPECT_EQ(forgotten("routes: [{path: /a, host: a.test}]\n", "routes: [{path: /a, host: '*.test'}]\n"), "");
  EXPECT_TRUE(forgotten("routes: [{path: /a}]\n", "routes: [{path: /a, host: a.test}]\n")
                  .starts_with("route /a: POST is no longer protected"));
}

TEST(ForgottenKeys, SeesHostsAndProxies) {
  EXPECT_TRUE(
      forgotten("", "same_hosts: 'a.test b.test'\n").starts_with("same_hosts changes from none to a.test b.test"));
  EXPECT_TRUE(forgotten("", "trusted_proxies: 10.0.0.0/8\n").starts_with("trusted_proxies changes"));
}

}  // namespace once::config::reload_test
