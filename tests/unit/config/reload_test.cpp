#include "config/reload.hpp"

#include <gtest/gtest.h>

#include "config/load.hpp"

namespace once {

namespace reload_test {

Config config_of(std::string_view text) {
  auto config = parse(text, "once.yaml");
  EXPECT_TRUE(config.has_value());
  return config.value_or(Config());
}

using Names = std::vector<std::string>;

TEST(Reload, TakesOverHowRequestsAreServed) {
  const Config running = config_of("upstreams: {default: 'http://a:1'}\n");
  const Config wanted = config_of(
      "upstreams: {default: 'http://b:2'}\nlimits: {max_connections: 5}\ntimeouts: {drain: 1s}\npool: {max_idle: 3}\n"
      "tls: {min_version: 1.3}\nupstream_tls: {verify: no}\nlog: {level: error}\ndefaults: {ttl: 1h}\nroutes: [{path: "
      "/x}]\njwt: {keys: /k, leeway: 1s}\ntrusted_proxies: 10.0.0.0/8\n");
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
  EXPECT_EQ(needs_restart(running, other_token), Names{"what admin_token names"});
  Config other_keys = running;
  other_keys.sealing_secrets = {"another key of the file"};
  EXPECT_EQ(needs_restart(running, other_keys), Names{"what is in encryption.keys"});
}

}  // namespace reload_test

}  // namespace once
