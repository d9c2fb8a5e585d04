// The Lua scripts, one per verb. Each is one atomic step by Redis' clock. Only its first write can be refused, and that
// write is the op itself, so a script is never half done.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "store/redis/packed.hpp"
#include "store/store.hpp"

namespace once::redis {

inline constexpr std::size_t verb_count = 9;
inline constexpr std::size_t script_count = verb_count + 1;

// KEYS[1] is the operation's key; KEYS[2] of append and read is the list of its chunks. ARGV[1] has the terms
// (packed.hpp); ARGV[2] is the outcome for finish, the chunk for append, the labels for claim.
std::string script_of(Verb verb);

// Prepared commands with the SHA-1 names of the scripts; only key and arguments are added.
class Scripts {
 public:
  Scripts();

  // Appends EVALSHA for one op at `key`, which is `prefix` and the id's hex.
  void append_call(std::string& out, const Op& op, std::string_view prefix, std::string_view key,
                   const CallTerms& terms) const;
  // Appends a command that marks the record's outcome as being on the configured number of replicas. The reply is
  // ignored.
  void append_mark(std::string& out, std::string_view key, const Nonce& nonce) const;
  // Appends SCRIPT LOAD for every script: script_count replies.
  void append_load(std::string& out) const;

 private:
  std::array<std::string, verb_count> heads_;
  std::array<std::string, verb_count> terms_heads_;
  std::string mark_head_;
};

}  // namespace once::redis
