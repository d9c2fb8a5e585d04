// The Lua scripts, one per verb. Each is one atomic step by Redis' clock. Only its first write can be refused, and that
// one is what the op is about, so a script cannot be half done.
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

// KEYS[1] is the operation's key; KEYS[2] of append and read is the list of its chunks. ARGV[1] are the terms
// (packed.hpp); ARGV[2] of finish is the outcome, of append the chunk, of claim the labels.
std::string script_of(Verb verb);

// The prepared commands with the SHA-1 names of the scripts; only key and arguments are missing.
class Scripts {
 public:
  Scripts();

  // EVALSHA for one op, with its key: `prefix` and the id's hex.
  void append_call(std::string& out, const Op& op, std::string_view prefix, std::string_view key,
                   const CallTerms& terms) const;
  // Marks in a record that the configured number of replicas has its outcome. The reply is ignored.
  void append_mark(std::string& out, std::string_view key, const Nonce& nonce) const;
  // SCRIPT LOAD for every script: script_count replies.
  void append_load(std::string& out) const;

 private:
  std::array<std::string, verb_count> heads_;
  std::array<std::string, verb_count> terms_heads_;
  std::string mark_head_;
};

}  // namespace once::redis
