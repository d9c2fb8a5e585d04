// Claims that reach the server when nobody waits for them any more.
#pragma once

#include "tests/store/held_claim.hpp"
#include "tests/store/sql/server.hpp"

namespace once::sql_test {

class SqlHeldClaim : public SqlTest {};

TEST_F(SqlHeldClaim, claims_nothing_where_nothing_is) {
  contract::HeldClaim(server().held_claims()).arrives_where_nothing_is();
}

TEST_F(SqlHeldClaim, claims_nothing_after_a_later_claim_has_ended) {
  contract::HeldClaim(server().held_claims()).arrives_after_a_later_one();
}

}  // namespace once::sql_test
