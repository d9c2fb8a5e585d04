// A program that uses the library and one that uses the claims API meet at the same operation.
#include <gtest/gtest.h>

#include "claims/identity.hpp"
#include "core/json_canonical.hpp"
#include "guard/operation.hpp"

namespace once::guard::guard_claims_test {

constexpr std::string_view secret = "0123456789abcdef";

TEST(GuardAndClaims, the_same_names_make_the_same_id) {
  const Operations guard(secret);
  const claims::Identities api(secret);
  EXPECT_EQ(guard.read({.tenant = "acme", .scope = "copy", .key = "k"})->id,
            api.operation("acme", "copy", claims::KeyKind::given, "k"));
  const auto inputs = canonical_json(R"({"text": "a", "intake": 1230})");
  EXPECT_EQ(guard.read({.tenant = "acme", .scope = "copy", .inputs = {{"intake", 1230}, {"text", "a"}}})->id,
            api.operation("acme", "copy", claims::KeyKind::inputs, *inputs));
}

TEST(GuardAndClaims, the_same_handle_is_written) {
  const OperationId id{{1, 2}};
  const Nonce nonce{{3, 4}};
  EXPECT_EQ(handle_of(id, nonce), claims::Identities::text_of({.id = id, .nonce = nonce}));
}

}  // namespace once::guard::guard_claims_test
