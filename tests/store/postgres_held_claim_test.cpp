// Claims that reach PostgreSQL when nobody waits for them any more.
#include "tests/store/held_claim.hpp"
#include "tests/store/postgres_support.hpp"

namespace once::store {
namespace postgres_held_claim_test {

class PostgresHeldClaim : public PostgresTest {
 protected:
  static contract::HeldClaims postgres() {
    const std::string url = contract::server_url();
    const std::size_t port = url.rfind(':') + 1;
    const std::size_t database = url.find('/', port);
    return {.server = static_cast<std::uint16_t>(*parse_number(std::string_view(url).substr(port, database - port))),
            .claims = "once_claim",
            .open = [url, port, database](std::uint16_t relay, const ServerSettings& settings) {
              return open(settings, url.substr(0, port) + std::to_string(relay) + url.substr(database));
            }};
  }
};

TEST_F(PostgresHeldClaim, claims_nothing_where_nothing_is) {
  contract::HeldClaim(postgres()).arrives_where_nothing_is();
}

TEST_F(PostgresHeldClaim, claims_nothing_after_a_later_claim_has_ended) {
  contract::HeldClaim(postgres()).arrives_after_a_later_one();
}

}  // namespace postgres_held_claim_test
}  // namespace once::store
