// A body that is read in pieces has the fingerprint of the same body in memory.
#include "core/large_fingerprint.hpp"

#include <array>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "core/fingerprint.hpp"

namespace once::core::large_fingerprint_test {

using Body = FingerprintPolicy::Body;

// Hands out the least it may, and up to `more` bytes on top.
class Pieces final : public BodyBytes {
 public:
  Pieces(std::string_view body, std::size_t more) : body_(body), more_(more) {}

  std::optional<std::string_view> at(std::uint64_t offset, std::size_t least) override {
    if (fails_at != 0 && ++calls >= fails_at) return std::nullopt;
    return body_.substr(static_cast<std::size_t>(offset), least + more_);
  }

  std::size_t fails_at = 0;
  std::size_t calls = 0;

 private:
  std::string_view body_;
  std::size_t more_;
};

struct Asked {
  FingerprintPolicy policy;
  std::string_view content_type;
  bool announced = true;
};

std::optional<Fingerprint> read_in_pieces(const Asked& asked, std::string_view body, Pieces& pieces) {
  const auto length = asked.announced ? std::optional<std::uint64_t>(body.size()) : std::nullopt;
  LargeFingerprint large(asked.policy, "POST", "/files?a=b", asked.content_type, length);
  for (std::size_t at = 0; at < body.size(); at += 3) large.add(body.substr(at, 3));
  if (large.end(body.size()) == LargeFingerprint::Known::yes) return large.take();
  while (true) {
    switch (large.step(pieces)) {
      case LargeFingerprint::Progress::more: break;
      case LargeFingerprint::Progress::known: return large.take();
      case LargeFingerprint::Progress::unreadable: return std::nullopt;
    }
  }
}

void expect_same(const Asked& asked, std::string_view body) {
  const Fingerprint whole = fingerprint(asked.policy, "POST", "/files?a=b", asked.content_type, body);
  for (const std::size_t more : {0U, 1U, 5U, 1000U}) {
    for (const bool announced : {true, false}) {
      Asked variant = asked;
      variant.announced = announced;
      Pieces pieces(body, more);
      EXPECT_EQ(read_in_pieces(variant, body, pieces), whole) << body << " in pieces with " << more << " more";
    }
  }
}

constexpr std::string_view multipart = "multipart/form-data; boundary=ab; start=\"<x>\"";

TEST(LargeFingerprint, bodies_that_count_by_their_bytes) {
  for (const std::string_view type : {"text/plain", "", "Image/PNG; x=y", "multipart/form-data"}) {
    for (const Body body : {Body::raw, Body::form, Body::json, Body::none}) {
      expect_same({.policy = {.body = body}, .content_type = type}, "some bytes \r\n that --ab are no parts");
      expect_same({.policy = {.body = body}, .content_type = type}, "x");
    }
  }
  expect_same({.policy = {.body = Body::raw}, .content_type = multipart}, "--ab\r\nA: b\r\n\r\nc\r\n--ab--\r\n");
}

TEST(LargeFingerprint, json_and_forms_count_by_their_bytes) {
  Pieces pieces(R"({"a":1})", 100);
  const auto json =
      read_in_pieces({.policy = {.body = Body::json}, .content_type = "application/json"}, R"({"a":1})", pieces);
  EXPECT_EQ(json, fingerprint({.body = Body::raw}, "POST", "/files?a=b", "application/json", R"({"a":1})"));
  EXPECT_NE(json, fingerprint({.body = Body::json}, "POST", "/files?a=b", "application/json", R"({"a":1})"));
}

TEST(LargeFingerprint, parts) {
  for (const std::string_view body :
       {"--ab\r\nA: b\r\n\r\nc\r\n--ab--\r\n", "--ab\r\nA: b\r\n\r\nc\r\n--ab--",
        "before\r\n--ab\r\n\r\n--ab\r\n\r\n--ab--\r\nafter", "--ab--", "--ab--\r", "--ab--x", "--ab\r\nc--ab--",
        "--ab\r\nc\r\n--abx", "--ab\r\nc\r\n--ab--\r\n--ab", "x--ab--", "\r\n--ab--", "--ab\r\n--ab--", "--ab", "--a",
        "", "--ab\r\nunended\r\n"}) {
    for (const Body policy : {Body::form, Body::json}) {
      expect_same({.policy = {.body = policy}, .content_type = multipart}, body);
    }
  }
}

TEST(LargeFingerprint, parts_put_together_at_random) {
  std::mt19937 random(1);
  constexpr std::array<std::string_view, 10> words = {"--ab", "\r\n", "--",           "-",     "a", "b",
                                                      "\r",   "xyz",  "\r\n--ab\r\n", "--ab--"};
  for (int round = 0; round < 3000; ++round) {
    std::string body = random() % 2 == 0 ? "--ab\r\n" : "";
    const std::size_t length = random() % 12;
    for (std::size_t i = 0; i < length; ++i) body.append(words[random() % words.size()]);
    if (random() % 2 == 0) body.append("\r\n--ab--\r\n");
    expect_same({.policy = {.body = Body::json}, .content_type = multipart}, body);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(LargeFingerprint, a_body_that_cannot_be_read_has_none) {
  constexpr std::string_view body = "--ab\r\nA: b\r\n\r\nc\r\n--ab--\r\n";
  for (std::size_t call = 1;; ++call) {
    Pieces pieces(body, 3);
    pieces.fails_at = call;
    const auto got = read_in_pieces({.policy = {.body = Body::json}, .content_type = multipart}, body, pieces);
    if (pieces.calls < call) break;
    EXPECT_EQ(got, std::nullopt) << call;
  }
}

TEST(LargeFingerprint, tells_another_body_by_what_was_announced) {
  const FingerprintPolicy raw;
  const std::string plain = describe_large_body(raw, "text/plain", 12, "");
  EXPECT_TRUE(differs_from(plain, 11, ""));
  EXPECT_FALSE(differs_from(plain, 12, ""));
  EXPECT_FALSE(differs_from(plain, 12, "sha-256=:abc=:"));
  const std::string digested = describe_large_body(raw, "text/plain", 12, "sha-512=:xyz=:, sha-256=:abc=:");
  EXPECT_FALSE(differs_from(digested, 12, ""));
  EXPECT_FALSE(differs_from(digested, 12, "sha-256=:abc=:"));
  EXPECT_TRUE(differs_from(digested, 12, "sha-256=:abd=:"));
  EXPECT_TRUE(differs_from(digested, 12, "md5=:abc=:,sha-512=:abc=:"));
  // Not compared, or not by its bytes.
  EXPECT_EQ(describe_large_body({.body = Body::none}, "text/plain", 12, ""), "");
  EXPECT_EQ(describe_large_body({.body = Body::json}, "multipart/form-data; boundary=b", 12, ""), "");
  EXPECT_FALSE(differs_from("", 12, ""));
  EXPECT_FALSE(differs_from("no number", 12, ""));
}

}  // namespace once::core::large_fingerprint_test
