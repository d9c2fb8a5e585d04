#include "core/json_walk.hpp"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace once::core::json_walk_test {

// What was reported, as text; refuses the call of that number, counted from one.
class Recorder final : public JsonVisitor {
 public:
  explicit Recorder(int refused = 0) : refused_(refused) {}
  const std::string& text() const { return text_; }
  int calls() const { return calls_; }

  bool begin(JsonContainer container) override { return add(container == JsonContainer::object ? "{" : "["); }
  bool name(std::string_view content, std::string_view written) override {
    return add(fmt::format("name {} {}", content, written));
  }
  bool scalar(const JsonScalar& value) override {
    return add(fmt::format("{} {} {}", static_cast<int>(value.kind), value.content, value.written));
  }
  bool end(JsonContainer container, std::string_view written) override {
    return add(fmt::format("{} {}", container == JsonContainer::object ? "}" : "]", written));
  }

 private:
  bool add(std::string_view what) {
    text_.append(what).append("\n");
    return ++calls_ != refused_;
  }

  std::string text_;
  int calls_ = 0;
  const int refused_;
};

constexpr std::string_view document = " {\"\\u0061\" : [1.50, \"x\\n\"], \"b\":{ }, \"c\":true,\"d\":null} ";

TEST(JsonWalk, everything_is_reported_in_order_and_as_it_is_written) {
  Recorder recorder;
  ASSERT_TRUE(walk_json(document, {.depth = 2}, recorder));
  EXPECT_EQ(recorder.text(),
            "{\nname a \"\\u0061\"\n[\n1 15e-1 1.50\n0 x\n \"x\\n\"\n] [1.50, \"x\\n\"]\nname b \"b\"\n{\n} { }\n"
            "name c \"c\"\n2 true true\nname d \"d\"\n3 null null\n"
            "} {\"\\u0061\" : [1.50, \"x\\n\"], \"b\":{ }, \"c\":true,\"d\":null}\n");
}

TEST(JsonWalk, a_visitor_that_refuses_any_call_ends_the_walk_there) {
  Recorder all;
  ASSERT_TRUE(walk_json(document, {.depth = 2}, all));
  for (int refused = 1; refused <= all.calls(); ++refused) {
    Recorder recorder(refused);
    EXPECT_FALSE(walk_json(document, {.depth = 2}, recorder)) << refused;
    EXPECT_EQ(recorder.calls(), refused);
  }
}

TEST(JsonWalk, containers_deeper_than_the_limit_are_refused) {
  Recorder recorder;
  EXPECT_FALSE(walk_json(document, {.depth = 1}, recorder));
  EXPECT_FALSE(walk_json("[]", {.depth = 0}, recorder));
  EXPECT_TRUE(walk_json("[[[]]]", {.depth = 3}, recorder));
  EXPECT_FALSE(walk_json("[[[]]]", {.depth = 2}, recorder));
  EXPECT_FALSE(walk_json(std::string(1'000'000, '['), {.depth = 64}, recorder));
}

TEST(JsonWalk, every_cut_of_a_document_is_refused) {
  for (std::size_t size = 0; size + 1 < document.size(); ++size) {
    Recorder recorder;
    EXPECT_FALSE(walk_json(document.substr(0, size), {.depth = 2}, recorder)) << size;
  }
}

TEST(JsonWalk, values_that_readers_disagree_on_are_taken_only_when_any_may_come) {
  for (const std::string_view text :
       {"\"\\ud800\"", "\"\\udc00\"", "\"\\ud800\\u0041\"", "\"\\ud800\\ud800\"", "1e999999999999"}) {
    Recorder recorder;
    EXPECT_FALSE(walk_json(text, {.depth = 1}, recorder)) << text;
    EXPECT_TRUE(walk_json(text, {.depth = 1, .values = JsonValues::any}, recorder)) << text;
  }
  for (const std::string_view text : {"\"\\ud80\"", "\"\\ud800\\u004\"", "\"\\ud800\\x\"", "1e", "1e+"}) {
    Recorder recorder;
    EXPECT_FALSE(walk_json(text, {.depth = 1, .values = JsonValues::any}, recorder)) << text;
  }
}

}  // namespace once::core::json_walk_test
