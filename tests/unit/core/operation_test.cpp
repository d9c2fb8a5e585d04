#include "core/operation.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace once::core::operation_test {

OperationId id(const std::vector<std::string_view>& scope, std::string_view key, std::string_view secret = "secret") {
  return OperationIds(secret).make(scope, key);
}

TEST(Operation, the_same_scope_and_key_are_the_same_operation) {
  EXPECT_EQ(id({"alice", "POST", "/pay"}, "k"), id({"alice", "POST", "/pay"}, "k"));
}

TEST(Operation, a_key_never_crosses_callers_methods_or_paths) {
  const OperationId one = id({"alice", "POST", "/pay"}, "k");
  EXPECT_NE(one, id({"bob", "POST", "/pay"}, "k"));
  EXPECT_NE(one, id({"alice", "PATCH", "/pay"}, "k"));
  EXPECT_NE(one, id({"alice", "POST", "/pay2"}, "k"));
  EXPECT_NE(one, id({"alice", "POST", "/pay"}, "k2"));
}

// It is shown to operators, and must say nothing of the ids of anybody's operations.
TEST(Operation, a_callers_tag_is_no_part_of_an_id) {
  const std::string no_scope(8, '\0');  // as an id begins
  const std::vector<std::string_view> parts = {no_scope, "k"};
  const TenantTag tag = OperationIds("secret").tenant(parts);
  EXPECT_FALSE(to_hex(id({}, "k")).starts_with(std::string_view(tag.data(), tag.size())));
}

TEST(Operation, bytes_do_not_move_between_parts) {
  EXPECT_NE(id({"ab", "c"}, "k"), id({"a", "bc"}, "k"));
  EXPECT_NE(id({"a", "b"}, "k"), id({"a"}, "bk"));
  EXPECT_NE(id({"a", ""}, "k"), id({"a"}, "k"));
  EXPECT_NE(id({}, "k"), id({""}, "k"));
  EXPECT_NE(id({"a"}, "b"), id({"b"}, "a"));
}

TEST(Operation, another_secret_gives_other_ids) {
  EXPECT_NE(id({"a"}, "k", "secret"), id({"a"}, "k", "secret2"));
}

// Golden bytes, computed with Python's hmac: ids are stored, so this value must never change.
TEST(Operation, ids_are_stable_across_releases) {
  EXPECT_EQ(to_hex(id({"alice", "POST", "/pay"}, "k")),
            "1a1410d6359190e00546d871045923e7d57816abf6622a2273ce7e38a68f0ef7");
}

RC_GTEST_PROP(OperationProperty, ids_are_equal_only_if_all_parts_are,
              (const std::vector<std::string>& a, const std::vector<std::string>& b, const std::string& key)) {
  const std::vector<std::string_view> left(a.begin(), a.end());
  const std::vector<std::string_view> right(b.begin(), b.end());
  RC_ASSERT((id(left, key) == id(right, key)) == (a == b));
}

TEST(Operation, a_tenant_is_the_same_for_one_caller_and_says_nothing_of_it) {
  const OperationIds ids("secret");
  const auto tenant = [](const OperationIds& by, const std::vector<std::string_view>& caller) {
    const TenantTag tag = by.tenant(caller);
    return std::string(tag.begin(), tag.end());
  };
  EXPECT_EQ(tenant(ids, {"given", "Bearer a"}), tenant(ids, {"given", "Bearer a"}));
  EXPECT_NE(tenant(ids, {"given", "Bearer a"}), tenant(ids, {"given", "Bearer b"}));
  EXPECT_NE(tenant(ids, {"ab", "c"}), tenant(ids, {"a", "bc"}));
  EXPECT_NE(tenant(ids, {"a"}), tenant(OperationIds("other"), {"a"}));
  EXPECT_EQ(tenant(ids, {"a"}).find_first_not_of("0123456789abcdef"), std::string::npos);
}

}  // namespace once::core::operation_test
