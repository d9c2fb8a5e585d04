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

// What an answer says that matters here.
struct Reply {
  int status = 0;
  std::string_view idempotency_status;  // the header
  std::string_view problem_code;        // of the body, if it is a problem or an error object
  enum class Says : std::uint8_t { nothing, retryable, not_retryable } says = Says::nothing;
  std::optional<Duration> retry_after;
};

Happened classify(const Reply& reply);

struct Situation {
  Happened happened;
  unsigned tries = 1;                   // made so far, this one included
  std::optional<Duration> retry_after;  // as the answer asked
  Duration left{};                      // until the deadline
  std::uint64_t chance = 0;             // any number, each as likely as the others
};

enum class Verdict : std::uint8_t { done, again, retries_spent, deadline };

struct Next {
  Verdict verdict;
  Duration wait{};  // before the next try
};

Next next_step(const Options& options, const Situation& situation);

// The longest that may be waited after `tries` tries; the wait itself is random between zero and this.
Duration backoff_window(const Options& options, unsigned tries);

}  // namespace once::client
