#include "core/problem.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include <gmock/gmock.h>

#include "core/policy.hpp"

namespace once::core::problem_test {

using testing::HasSubstr;
using testing::StartsWith;

std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

const std::filesystem::path pages = std::filesystem::path(ONCE_SOURCE_DIR) / "docs" / "errors";

TEST(Problem, is_an_rfc_9457_object_with_the_members_of_its_row) {
  EXPECT_EQ(to_json(problem(ProblemKind::key_mismatch, "Another body.")),
            R"({"type":"urn:once:error:key-mismatch","title":"The key was used for another request","status":422,)"
            R"("detail":"Another body.","code":"key-mismatch","retryable":false})");
}

TEST(Problem, the_type_can_be_an_address_of_the_operator) {
  EXPECT_THAT(to_json(problem(ProblemKind::in_flight, ""), "https://api.example/errors/"),
              StartsWith(R"({"type":"https://api.example/errors/in-flight",)"));
}

TEST(Problem, a_dialect_changes_status_and_code_but_not_the_type) {
  Problem mismatch = problem(ProblemKind::key_mismatch, "d");
  mismatch.status = 409;
  mismatch.code = "IDEMPOTENCY_MISMATCH";
  const std::string json = to_json(mismatch);
  EXPECT_THAT(json, HasSubstr(R"("type":"urn:once:error:key-mismatch")"));
  mismatch.name = "idempotency-mismatch";
  mismatch.title = "Idempotency Key Mismatch";
  EXPECT_THAT(to_json(mismatch, "/errors/"),
              HasSubstr(R"({"type":"/errors/idempotency-mismatch","title":"Idempotency Key Mismatch",)"));
  EXPECT_THAT(json, HasSubstr(R"("status":409)"));
  EXPECT_THAT(json, HasSubstr(R"("code":"IDEMPOTENCY_MISMATCH")"));
}

TEST(Problem, a_moment_can_change_whether_a_retry_helps) {
  Problem held = problem(ProblemKind::outcome_unknown, "d");
  EXPECT_THAT(to_json(held), HasSubstr(R"("retryable":true)"));
  held.retryable = Retryable::no;
  EXPECT_THAT(to_json(held), HasSubstr(R"("retryable":false)"));
}

TEST(Problem, an_error_object_for_client_libraries_that_look_there) {
  Problem in_use = problem(ProblemKind::in_flight, "Busy.");
  EXPECT_THAT(to_json(in_use), testing::Not(HasSubstr("error\":{")));
  in_use.error_object = true;
  in_use.code = "idempotency_key_in_use";
  EXPECT_THAT(to_json(in_use),
              HasSubstr(R"(,"error":{"type":"idempotency_error","code":"idempotency_key_in_use","message":"Busy."}})"));
  Problem down = problem(ProblemKind::store_unavailable, "Down.");
  down.error_object = true;
  EXPECT_THAT(to_json(down), HasSubstr(R"("error":{"type":"api_error","code":"store-unavailable")"));
  Problem large = problem(ProblemKind::body_too_large, "Large.");
  large.error_object = true;
  EXPECT_THAT(to_json(large), HasSubstr(R"("error":{"type":"invalid_request_error","code":"body-too-large")"));
}

TEST(Problem, text_from_outside_is_escaped) {
  EXPECT_THAT(to_json(problem(ProblemKind::bad_request, "a\"b\\c\n\xff")),
              HasSubstr("\"detail\":\"a\\\"b\\\\c\\n\xef\xbf\xbd\""));
}

TEST(Problem, rows_are_found_by_kind_and_names_are_unique) {
  std::set<std::string_view> names;
  for (const ProblemRow& row : all_problems()) {
    EXPECT_EQ(&row_of(row.kind), &row);
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_GE(row.status, 400);
    EXPECT_LT(row.status, 600);
  }
  EXPECT_EQ(names.size(), all_problems().size());
}

TEST(Problem, the_default_wording_is_that_of_the_rows) {
  const Wording wording;
  EXPECT_EQ(wording.mismatch_code, row_of(ProblemKind::key_mismatch).name);
  EXPECT_EQ(wording.mismatch_type, row_of(ProblemKind::key_mismatch).name);
  EXPECT_EQ(wording.mismatch_title, row_of(ProblemKind::key_mismatch).title);
  EXPECT_EQ(wording.mismatch_status, row_of(ProblemKind::key_mismatch).status);
  EXPECT_EQ(wording.in_flight_code, row_of(ProblemKind::in_flight).name);
  EXPECT_EQ(wording.in_flight_status, row_of(ProblemKind::in_flight).status);
}

TEST(Problem, what_may_have_been_executed_unprotected_is_never_called_retryable) {
  EXPECT_EQ(row_of(ProblemKind::gateway_timeout).retryable, Retryable::no);
  EXPECT_EQ(row_of(ProblemKind::backend_lost).retryable, Retryable::no);
  EXPECT_EQ(row_of(ProblemKind::bad_gateway).retryable, Retryable::yes);
}

TEST(ProblemPages, every_kind_has_a_page_that_agrees_with_its_row) {
  for (const ProblemRow& row : all_problems()) {
    const std::string text = file_text(pages / (std::string(row.name) + ".md"));
    EXPECT_THAT(text, StartsWith("# " + std::string(row.name) + ": " + std::string(row.title) + "\n"));
    EXPECT_THAT(text, HasSubstr("\nStatus " + std::to_string(row.status))) << row.name;
    for (const char* part : {"## What happened\n", "## Was anything executed?\n", "## What a client should do\n",
                             "## What an operator should do\n"}) {
      EXPECT_THAT(text, HasSubstr(part)) << row.name;
    }
  }
}

TEST(ProblemPages, no_page_lacks_a_kind) {
  std::set<std::string> names;
  for (const ProblemRow& row : all_problems()) names.insert(std::string(row.name));
  std::size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(pages)) {
    if (entry.path().filename() == "README.md") continue;  // the index
    EXPECT_TRUE(names.contains(entry.path().stem().string())) << entry.path();
    EXPECT_EQ(entry.path().extension(), ".md") << entry.path();
    ++found;
  }
  EXPECT_EQ(found, names.size());
}

}  // namespace once::core::problem_test
