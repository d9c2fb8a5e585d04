#include "core/reason.hpp"

#include <gtest/gtest.h>

#include "core/problem.hpp"

namespace once::core::reason_test {

TEST(Reason, known_statuses_have_their_registered_phrase) {
  EXPECT_EQ(reason_phrase(200), "OK");
  EXPECT_EQ(reason_phrase(409), "Conflict");
  EXPECT_EQ(reason_phrase(422), "Unprocessable Content");
  EXPECT_EQ(reason_phrase(503), "Service Unavailable");
}

TEST(Reason, an_unknown_status_has_none) {
  for (const int status : {-1, 0, 99, 299, 418, 599, 1000}) EXPECT_EQ(reason_phrase(status), "") << status;
}

TEST(Reason, every_problem_has_one) {
  for (const ProblemRow& row : all_problems()) EXPECT_NE(reason_phrase(row.status), "") << row.name;
}

}  // namespace once::core::reason_test
