// Claims that reach MySQL when nobody waits for them any more.
#include "tests/store/held_claim.hpp"
#include "tests/store/mysql_fixture.hpp"

namespace once::mysql_test {
namespace mysql_held_claim_test {

class MysqlHeldClaim : public MysqlTest {
 protected:
  static contract::HeldClaims mysql() {
    const std::string url = contract::server_url();
    const std::size_t host = url.find('@') + 1;
    return {.server = mysql::parse_target(url)->hosts.front().port,
            .claims = "INSERT INTO once_operations",
            .open = [url, host](std::uint16_t relay, const ServerSettings& settings) {
              return opened(fmt::format("{}127.0.0.1:{}{}", url.substr(0, host), relay, url.substr(url.rfind('/'))),
                            settings);
            }};
  }
};

TEST_F(MysqlHeldClaim, claims_nothing_where_nothing_is) {
  contract::HeldClaim(mysql()).arrives_where_nothing_is();
}

TEST_F(MysqlHeldClaim, claims_nothing_after_a_later_claim_has_ended) {
  contract::HeldClaim(mysql()).arrives_after_a_later_one();
}

}  // namespace mysql_held_claim_test
}  // namespace once::mysql_test
