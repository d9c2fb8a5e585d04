// What a reply means for an op.
#pragma once

#include <cstdint>
#include <string>

#include "store/redis/reply.hpp"
#include "store/store.hpp"

namespace once::redis {

enum class Read : std::uint8_t {
  answered,  // the op has its results; nothing had to be written
  written,   // the same, and it rests on a write that must not be forgotten after it is told
  refused,   // the op has its results: a record that this version cannot read
  late,      // nothing was changed: the claim came after its time; the op has the clock, and may be sent again
  nonsense,  // no script answers this; the op is as it was
};

// `reply` is not an error reply.
Read read_reply(Op& op, const redisReply& reply);

enum class Refusal : std::uint8_t {
  lasting,      // tell the caller
  full,         // tell the caller
  no_script,    // load the scripts
  redirection,  // read_redirection() says where
  not_now,      // try again in a moment
  not_master,   // find out who is
};

// Why a command was refused before it did anything. All of these are certain: the scripts' only write is the last thing
// that can fail in them.
Refusal refusal_of(std::string_view error);

}  // namespace once::redis
