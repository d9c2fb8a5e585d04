// Parses requests of the claims API strictly: unknown, repeated and out-of-range members are refused with a text that
// names them.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "claims/identity.hpp"
#include "core/decision.hpp"
#include "core/record.hpp"

namespace once::claims {

inline constexpr Duration default_claim_lease = std::chrono::seconds(30);
inline constexpr std::size_t longest_reason = 200;

// The error text never contains a key or an input.
template <class T>
using Read = std::expected<T, std::string>;

// Identifies an operation.
struct Named {
  std::string scope;
  KeyKind kind = KeyKind::given;
  std::string key;  // as given, or the canonical form of the inputs
  Duration wait{};
};

struct ClaimAsked {
  Named name;
  std::optional<std::string> fingerprint;  // canonical
  ClaimTerms terms;
  std::optional<Nonce> nonce;
};

struct SucceedAsked {
  std::string_view value;  // a view of the body
  std::optional<Duration> ttl;
};

// A piece of progress.
struct ProgressAsked {
  std::uint32_t number = 0;  // the first is 0
  std::string_view data;     // a view of the body
};

// Where a client continues to read the progress of an operation.
struct ProgressPlace {
  std::uint32_t from = 0;
  std::optional<Fence> fence = std::nullopt;  // of the claim whose pieces it has read
};

struct FollowAsked {
  Named name;
  ProgressPlace place;
};

// `wait` is cut to `max_wait`.
Read<ClaimAsked> read_claim(std::string_view body, Duration max_wait);
Read<Named> read_lookup(std::string_view body, Duration max_wait);
Read<Named> read_lookup_query(std::string_view query, Duration max_wait);
Read<FollowAsked> read_follow(std::string_view body, Duration max_wait);
Read<FollowAsked> read_follow_query(std::string_view query, Duration max_wait);
// nullopt inside: no lease was given.
Read<std::optional<Duration>> read_renew(std::string_view body);
Read<SucceedAsked> read_succeed(std::string_view body);
Read<ProgressAsked> read_progress(std::string_view body);
// The reason, or an empty text.
Read<std::string> read_fail(std::string_view body);
Read<void> read_release(std::string_view body);

}  // namespace once::claims
