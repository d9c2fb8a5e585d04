// Decides what to do after a try: pure functions over a table with one row per case. No I/O, no clock, no random
// source.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/clock.hpp"
#include "once/client.hpp"

namespace once::client {

enum class Retried : std::uint8_t {
  never,
  always,
  if_asked,  // Options::server_errors
};

enum class Sent : std::uint8_t { nothing, perhaps, answered };

struct Row {
  Happened happened;
  std::string_view name;
  Retried retried;
  Sent sent;
  std::string_view what;  // as docs/guides/client.md has it
  std::string_view why;
};

std::span<const Row> rows();
const Row& row_of(Happened happened);

// The parts of an answer that matter here.
struct Reply {
  int status = 0;
  std::string_view idempotency_status;  // the header's value
  std::string_view problem_code;        // from the body, if it is a problem or an error object
  enum class Says : std::uint8_t { nothing, retryable, not_retryable } says = Says::nothing;
  std::optional<Duration> retry_after;
};

Happened classify(const Reply& reply);

struct Situation {
  Happened happened;
  unsigned tries = 1;                   // including this one
  std::optional<Duration> retry_after;  // requested by the answer
  Duration left{};                      // until the deadline
  std::uint64_t chance = 0;             // uniformly random
};

enum class Verdict : std::uint8_t { done, again, retries_spent, deadline };

struct Next {
  Verdict verdict;
  Duration wait{};  // before the next try
};

Next next_step(const Options& options, const Situation& situation);

// The longest wait after `tries` tries; the actual wait is random between zero and this.
Duration backoff_window(const Options& options, unsigned tries);

}  // namespace once::client
