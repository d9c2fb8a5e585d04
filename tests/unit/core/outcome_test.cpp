#include "core/outcome.hpp"

#include <array>
#include <string>
#include <tuple>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace once::core::outcome_test {

using Kind = Settlement::Kind;
constexpr std::array deliveries = {Delivery::not_sent, Delivery::lost,     Delivery::timed_out, Delivery::truncated,
                                   Delivery::whole,    Delivery::unframed, Delivery::oversize};

using Said = BackendPolicy::Record;
constexpr std::array everything_said = {Said::by_status, Said::final, Said::retry, Said::no_store};

Settlement settle_said(Said said, int status, Delivery delivery = Delivery::whole) {
  return settle(delivery, status, {.record = said, .ttl = {}}, default_record_policy());
}

Kind kind_of_whole(int status, const RecordPolicy& policy = default_record_policy()) {
  return settle(Delivery::whole, status, {}, policy).kind;
}

TEST(Settle, nothing_sent_gives_the_claim_back) {
  EXPECT_EQ(settle(Delivery::not_sent, 0, {}, default_record_policy()), Settlement{Kind::release});
}

TEST(Settle, bytes_sent_without_a_whole_response_is_unknown_whatever_the_status_line_said) {
  for (const Delivery delivery : {Delivery::lost, Delivery::timed_out, Delivery::truncated}) {
    for (const int status : {0, 200, 429, 500, 503}) {
      for (const Said said : everything_said) {
        EXPECT_EQ(settle(delivery, status, {.record = said, .ttl = {}}, default_record_policy()),
                  Settlement{Kind::unknown});
      }
    }
  }
}

TEST(Settle, an_answer_is_recorded_with_its_body) {
  for (const int status : {200, 201, 204, 303, 400, 404, 409, 422}) {
    EXPECT_EQ(settle(Delivery::whole, status, {}, default_record_policy()), (Settlement{Kind::succeed, BodyKept::yes}))
        << status;
  }
}

Delivery weighed(std::string_view type, std::string_view body, Unframed unframed = Unframed::whole) {
  RecordPolicy policy = default_record_policy();
  policy.unframed = unframed;
  return weigh({.content_type = type, .body = body}, policy);
}

TEST(Weigh, json_with_an_end_of_its_own_is_whole) {
  for (const char* body : {R"({"id": "ch_1", "amount": 5})", " [1, 2]\n", R"("done")", "{}"}) {
    EXPECT_EQ(weighed("application/json", body), Delivery::whole) << body;
    EXPECT_EQ(weighed("application/problem+json; charset=utf-8", body), Delivery::whole) << body;
  }
}

TEST(Weigh, what_may_have_been_cut_off_is_not_proven_to_be_whole) {
  for (const char* body : {R"({"id": "ch_1", "amount":)", "[1, 2", R"("don)", "12", "true", "", " "}) {
    EXPECT_EQ(weighed("application/json", body), Delivery::unframed) << body;
  }
  // A line of many, and words that nobody can judge.
  EXPECT_EQ(weighed("application/x-ndjson", R"({"a": 1})"), Delivery::unframed);
  EXPECT_EQ(weighed("application/stream+json; v=1", R"({"a": 1})"), Delivery::unframed);
  EXPECT_EQ(weighed("text/plain", "{}"), Delivery::unframed);
  EXPECT_EQ(weighed("", "{}"), Delivery::unframed);
}

// Bytes of gzip or br are no JSON; a short body that parses was cut off, or is no such encoding.
TEST(Weigh, an_encoded_body_is_no_json_whatever_it_looks_like) {
  const UnframedResponse encoded{.content_type = "application/json", .body = "{}", .encoded = true};
  EXPECT_EQ(weigh(encoded, default_record_policy()), Delivery::unframed);
}

TEST(Weigh, an_end_that_the_backend_announced_is_a_proof) {
  RecordPolicy policy = default_record_policy();
  const UnframedResponse announced{.content_type = "text/plain", .body = "words", .end_announced = true};
  EXPECT_EQ(weigh(announced, policy), Delivery::whole);
  policy.unframed = Unframed::unknown;
  EXPECT_EQ(weigh(announced, policy), Delivery::unframed);
  EXPECT_EQ(weighed("application/json", "{}", Unframed::unknown), Delivery::unframed);
}

TEST(Settle, an_unframed_answer_is_recorded_only_if_the_route_says_so) {
  RecordPolicy policy = default_record_policy();
  for (const Unframed unframed : {Unframed::whole, Unframed::unknown}) {
    policy.unframed = unframed;
    EXPECT_EQ(settle(Delivery::unframed, 200, {}, policy), Settlement{Kind::unknown});
    EXPECT_EQ(settle(Delivery::unframed, 500, {.record = Said::final, .ttl = {}}, policy), Settlement{Kind::unknown});
  }
  policy.unframed = Unframed::keep;
  EXPECT_EQ(settle(Delivery::unframed, 200, {}, policy), (Settlement{Kind::succeed, BodyKept::yes}));
}

TEST(Settle, of_an_unframed_answer_that_is_not_recorded_the_status_is_enough) {
  EXPECT_EQ(settle(Delivery::unframed, 500, {}, default_record_policy()), Settlement{Kind::fail});
  EXPECT_EQ(settle(Delivery::unframed, 429, {}, default_record_policy()), Settlement{Kind::release});
  EXPECT_EQ(settle_said(Said::no_store, 200, Delivery::unframed), Settlement{Kind::release});
}

TEST(Settle, a_refusal_gives_the_claim_back) {
  for (const int status : {401, 402, 403, 407, 408, 413, 425, 429})
    EXPECT_EQ(kind_of_whole(status), Kind::release) << status;
}

TEST(Settle, any_other_answer_lets_a_retry_execute_again) {
  for (const int status : {500, 501, 502, 503, 504, 599, 600, 999, 0, -1}) {
    EXPECT_EQ(kind_of_whole(status), Kind::fail) << status;
  }
}

TEST(Settle, gateway_errors_of_the_backend_can_be_called_unknown) {
  RecordPolicy policy = default_record_policy();
  policy.gateway_errors = GatewayErrors::unknown;
  for (const int status : {502, 503, 504}) {
    EXPECT_EQ(kind_of_whole(status, policy), Kind::unknown) << status;
    EXPECT_EQ(settle(Delivery::oversize, status, {}, policy).kind, Kind::unknown) << status;
  }
  for (const int status : {500, 501, 505}) EXPECT_EQ(kind_of_whole(status, policy), Kind::fail) << status;
}

TEST(Settle, a_gateway_error_that_the_operator_lists_is_recorded) {
  for (const GatewayErrors errors : {GatewayErrors::failed, GatewayErrors::unknown}) {
    RecordPolicy policy = default_record_policy();
    policy.gateway_errors = errors;
    policy.statuses |= statuses({{503, 503}});
    EXPECT_EQ(kind_of_whole(503, policy), Kind::succeed);
  }
}

TEST(Settle, a_refusal_wins_over_what_is_recorded_or_unknown) {
  RecordPolicy policy = default_record_policy();
  policy.gateway_errors = GatewayErrors::unknown;
  policy.refusals.set(503);
  EXPECT_EQ(kind_of_whole(503, policy), Kind::release);
  policy.statuses = statuses({{200, 499}});
  EXPECT_EQ(kind_of_whole(429, policy), Kind::release);
  EXPECT_EQ(kind_of_whole(404, policy), Kind::succeed);
}

TEST(Settle, no_store_gives_the_claim_back) {
  for (const int status : {200, 404, 500, 503}) {
    EXPECT_EQ(settle_said(Said::no_store, status), Settlement{Kind::release}) << status;
  }
}

TEST(Settle, final_is_the_outcome_whatever_its_status) {
  for (const int status : {200, 404, 429, 500, 503}) {
    EXPECT_EQ(settle_said(Said::final, status), (Settlement{Kind::succeed, BodyKept::yes})) << status;
    EXPECT_EQ(settle_said(Said::final, status, Delivery::oversize), (Settlement{Kind::succeed, BodyKept::no}));
  }
}

TEST(Settle, retry_lets_a_retry_execute_again_whatever_the_status) {
  for (const int status : {200, 404, 429, 500, 503}) {
    EXPECT_EQ(settle_said(Said::retry, status), Settlement{Kind::fail}) << status;
  }
}

TEST(Settle, too_large_to_keep_is_recorded_without_its_body) {
  for (const Said said : everything_said) {
    EXPECT_EQ(settle_said(said, 200, Delivery::oversize), (Settlement{Kind::succeed, BodyKept::no}));
  }
  EXPECT_EQ(settle(Delivery::oversize, 429, {}, default_record_policy()), Settlement{Kind::release});
  EXPECT_EQ(settle(Delivery::oversize, 500, {}, default_record_policy()), Settlement{Kind::fail});
}

TEST(Settle, a_body_is_missing_only_from_a_success) {
  for (const Delivery delivery : deliveries) {
    for (int status = 0; status < 700; ++status) {
      const Settlement settlement = settle(delivery, status, {}, default_record_policy());
      if (settlement.body_kept == BodyKept::yes) continue;
      EXPECT_EQ(settlement.kind, Kind::succeed);
      EXPECT_EQ(delivery, Delivery::oversize);
    }
  }
}

TEST(Statuses, ranges_hold_both_ends_and_ignore_what_is_out_of_range) {
  const StatusSet set = statuses({{200, 202}, {599, 800}, {-5, 1}, {300, 299}});
  for (const int status : {0, 1, 200, 201, 202, 599}) EXPECT_TRUE(contains(set, status)) << status;
  for (const int status : {-1, 2, 199, 203, 299, 300, 598, 600, 800}) EXPECT_FALSE(contains(set, status)) << status;
  EXPECT_EQ(set.count(), 6U);
}

TEST(Statuses, defaults_are_2xx_3xx_4xx_of_which_refusals_win) {
  EXPECT_EQ(default_refusals().count(), 8U);
  EXPECT_EQ(default_statuses().count(), 300U);
  EXPECT_FALSE(contains(default_statuses(), 199));
  EXPECT_FALSE(contains(default_statuses(), 500));
}

const StoredResponse example{.status = 201,
                             .reason = "Created",
                             .headers = "Content-Type: text/plain\r\n",
                             .body = std::string_view("a\0b", 3),
                             .original_request_id = "req-1"};

// Golden bytes: outcomes are stored, so a release must read what the last one wrote.
TEST(Encoding, the_layout_is_fixed) {
  using namespace std::string_literals;
  EXPECT_EQ(encode(example),
            "\x01\x00\xc9\x00\x07\x00\x00\x00\x05\x00\x00\x00\x1a\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00"s
            "Createdreq-1Content-Type: text/plain\r\na\0b"s);
}

TEST(Encoding, a_body_in_chunks_has_its_length_in_place_of_the_body) {
  using namespace std::string_literals;
  StoredResponse head = example;
  head.body = {};
  head.in_chunks = BodyInChunks{.length = 0x0102030405};
  EXPECT_EQ(encode(head),
            "\x02\x00\xc9\x00\x07\x00\x00\x00\x05\x00\x00\x00\x1a\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00"s
            "Createdreq-1Content-Type: text/plain\r\n\x05\x04\x03\x02\x01\x00\x00\x00"s);
  EXPECT_EQ(decode(encode(head)), head);
  head.in_chunks->length.reset();
  EXPECT_EQ(decode(encode(head)), head);
  const std::string bytes = encode(head);
  for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(decode(bytes.substr(0, size))) << size;
  EXPECT_FALSE(decode(bytes + "x"));
}

TEST(Encoding, decoded_parts_are_views_into_the_bytes) {
  const std::string bytes = encode(example);
  const auto decoded = decode(bytes);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, example);
  EXPECT_EQ(decoded->body.data() + decoded->body.size(), bytes.data() + bytes.size());
}

TEST(Encoding, encode_into_replaces_and_reuses_the_room) {
  std::string out(4096, 'x');
  const char* const room = out.data();
  encode_into(out, example);
  EXPECT_EQ(out, encode(example));
  EXPECT_EQ(out.data(), room);
}

TEST(Encoding, every_cut_and_every_extra_byte_is_refused) {
  const std::string bytes = encode(example);
  for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(decode(bytes.substr(0, size))) << size;
  EXPECT_FALSE(decode(bytes + "x"));
}

TEST(Encoding, another_version_or_an_impossible_status_is_refused) {
  std::string bytes = encode(example);
  bytes[0] = 3;
  EXPECT_FALSE(decode(bytes));
  bytes = encode(example);
  bytes[1] = 1;
  EXPECT_FALSE(decode(bytes));
  bytes = encode(example);
  bytes[3] = 4;
  EXPECT_FALSE(decode(bytes));
}

TEST(Encoding, lengths_that_overflow_are_refused) {
  for (std::size_t at = 4; at < 24; ++at) {
    std::string bytes = encode(example);
    bytes[at] = '\xff';
    EXPECT_FALSE(decode(bytes)) << at;
  }
  std::string all = encode(example);
  for (std::size_t at = 4; at < 24; ++at) all[at] = '\xff';
  EXPECT_FALSE(decode(all));
}

RC_GTEST_PROP(EncodingProperty, what_was_encoded_is_decoded,
              (const std::string& reason, const std::string& headers, const std::string& body, const std::string& id)) {
  const StoredResponse response{.status = *rc::gen::inRange(0, 1000),
                                .reason = reason,
                                .headers = headers,
                                .body = body,
                                .original_request_id = id};
  const std::string bytes = encode(response);
  const auto decoded = decode(bytes);
  RC_ASSERT(decoded.has_value());
  RC_ASSERT(*decoded == response);
}

RC_GTEST_PROP(EncodingProperty, any_bytes_are_refused_or_mean_themselves, ()) {
  // A plausible head, else the version byte alone refuses nearly everything.
  std::string bytes = *rc::gen::container<std::string>(rc::gen::inRange<char>(0, 4));
  if (bytes.size() >= 2) {
    bytes[0] = 1;
    bytes[1] = 0;
  }
  bytes += *rc::gen::arbitrary<std::string>();
  const auto decoded = decode(bytes);
  if (decoded) RC_ASSERT(encode(*decoded) == bytes);
}

RC_GTEST_PROP(EncodingProperty, a_changed_byte_is_refused_or_means_something_else, (const std::string& body)) {
  StoredResponse response = example;
  response.body = body;
  std::string bytes = encode(response);
  const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
  bytes[at] = static_cast<char>(bytes[at] ^ *rc::gen::inRange(1, 256));
  const auto decoded = decode(bytes);
  if (decoded) RC_ASSERT(*decoded != response);
}

}  // namespace once::core::outcome_test
