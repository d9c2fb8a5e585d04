#include "claims/identity.hpp"

#include <set>

#include <gtest/gtest.h>

namespace once::claims::identity_test {

using namespace std::string_literals;

const Identities identities("a secret of the tests");
constexpr Nonce given{{1, 2, 3}};

OperationId operation(std::string_view tenant, std::string_view scope, std::string_view key,
                      KeyKind kind = KeyKind::given) {
  return identities.operation(tenant, scope, kind, key);
}

http::RequestHead head_with(std::initializer_list<std::string_view> authorizations) {
  http::RequestHead head;
  for (const std::string_view value : authorizations) head.fields.push_back({"authorization", value, ""});
  return head;
}

TEST(Identity, operations_differ_in_tenant_scope_kind_and_key) {
  const std::set<OperationId> ids = {operation("a", "s", "k"),
                                     operation("b", "s", "k"),
                                     operation("a", "t", "k"),
                                     operation("a", "s", "l"),
                                     operation("as", "", "k"),
                                     operation("a", "sk", ""),
                                     operation("a", "s", "k", KeyKind::inputs)};
  EXPECT_EQ(ids.size(), 7U);
  EXPECT_EQ(operation("a", "s", "k"), operation("a", "s", "k"));
  EXPECT_NE(Identities("another secret").operation("a", "s", KeyKind::given, "k"), operation("a", "s", "k"));
}

TEST(Identity, a_handle_is_its_tenants_alone) {
  const OperationId id = operation("acme", "s", "k");
  const ClaimHandle handle{.id = id, .nonce = identities.owner("acme", id, given)};
  const std::string text = Identities::text_of(handle);
  EXPECT_EQ(text.size(), 64U + 1 + 32);
  const auto read = identities.read("acme", text);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->id, id);
  EXPECT_EQ(read->nonce, handle.nonce);
  EXPECT_FALSE(identities.read("umbrella", text).has_value());
  EXPECT_FALSE(Identities("another secret").read("acme", text).has_value());
}

TEST(Identity, no_other_handle_is_read) {
  const OperationId id = operation("acme", "s", "k");
  const std::string text = Identities::text_of({.id = id, .nonce = identities.owner("acme", id, given)});
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = changed[i] == '0' ? '1' : '0';
    EXPECT_FALSE(identities.read("acme", changed).has_value()) << i;
  }
  const std::string of_the_gateway = to_hex(id) + "." + to_hex(given);
  for (const std::string& other : {""s, "."s, text.substr(1), text + "0", text.substr(0, 64), of_the_gateway}) {
    EXPECT_FALSE(identities.read("acme", other).has_value()) << other;
  }
}

TEST(Identity, the_same_nonce_is_the_same_owner_and_another_one_elsewhere) {
  const OperationId id = operation("acme", "s", "k");
  EXPECT_EQ(identities.owner("acme", id, given), identities.owner("acme", id, given));
  EXPECT_NE(identities.owner("acme", id, given), identities.owner("acme", id, Nonce{{1, 2, 4}}));
  EXPECT_NE(identities.owner("acme", id, given), identities.owner("acme", operation("acme", "s", "l"), given));
  EXPECT_NE(identities.owner("acme", id, given), identities.owner("umbrella", id, given));
}

TEST(Tenants, are_named_by_their_token) {
  const Tenants tenants({{"acme", "", "0123456789abcdef"}, {"umbrella", "", "fedcba9876543210"}});
  EXPECT_EQ(tenants.of(head_with({"Bearer 0123456789abcdef"})), "acme");
  EXPECT_EQ(tenants.of(head_with({"bearer fedcba9876543210"})), "umbrella");
  for (const std::string_view wrong :
       {"", "Bearer", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0", "0123456789abcdef",
        "Basic 0123456789abcdef", "Bearer 0123456789abcdef,fedcba9876543210"}) {
    EXPECT_EQ(tenants.of(head_with({wrong})), std::nullopt) << wrong;
  }
  EXPECT_EQ(tenants.of(head_with({})), std::nullopt);
  EXPECT_EQ(tenants.of(head_with({"Bearer 0123456789abcdef", "Bearer fedcba9876543210"})), std::nullopt);
}

TEST(Tenants, without_tokens_everybody_is_local) {
  EXPECT_EQ(Tenants({}).of(head_with({})), "local");
  EXPECT_EQ(Tenants({}).of(head_with({"Bearer whatever"})), "local");
}

}  // namespace once::claims::identity_test
