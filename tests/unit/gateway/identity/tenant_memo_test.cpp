#include "gateway/identity/tenant_memo.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace once::gateway::tenant_memo_test {

using Parts = std::vector<std::string_view>;

class TenantMemoTest : public testing::Test {
 protected:
  // What it says is what would have been computed, now and when it is asked again.
  void expect_right(const Parts& caller) {
    EXPECT_EQ(memo_.of(ids_, caller), ids_.tenant(caller));
    EXPECT_EQ(memo_.of(ids_, caller), ids_.tenant(caller));
  }

  OperationIds ids_{"a secret for tests"};
  TenantMemo memo_;
};

TEST_F(TenantMemoTest, parts_that_join_to_the_same_text_are_other_callers) {
  expect_right({"ab", "c"});
  expect_right({"a", "bc"});
  expect_right({"abc"});
  expect_right({"abc", ""});
  expect_right({"", "abc"});
  expect_right({"", "", "abc"});
}

TEST_F(TenantMemoTest, a_caller_that_begins_as_the_last_one_is_another) {
  expect_right({"header", "Bearer one"});
  expect_right({"header", "Bearer"});
  expect_right({"header", "Bearer one more"});
  expect_right({"header"});
  expect_right({"header", "Bearer one", "more"});
}

TEST_F(TenantMemoTest, a_part_with_the_mark_in_it_is_never_taken_for_two) {
  const std::string odd("a\0b", 3);
  expect_right({"a", "b"});
  expect_right({odd});
  expect_right({"a", "b"});
  expect_right({odd, ""});
}

TEST_F(TenantMemoTest, a_long_caller_does_not_leave_the_one_before_it_behind) {
  const std::string large(TenantMemo::most_bytes, 'x');
  expect_right({"short"});
  expect_right({large});
  expect_right({"short", large});
  expect_right({"short"});
}

}  // namespace once::gateway::tenant_memo_test
