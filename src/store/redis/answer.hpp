// Interprets a reply for an op.
#pragma once

#include <cstdint>
#include <string>

#include "store/redis/reply.hpp"
#include "store/store.hpp"

namespace once::redis {

enum class Read : std::uint8_t {
  answered,  // the op has its results; nothing had to be written
  written,   // the same, and it depends on a write that must be on the replicas before the op is answered
  refused,   // the op has its results: a record that this version cannot read
  late,      // nothing was changed: the claim arrived after its deadline; the op has the server's time and may be sent
             // again
  nonsense,  // not a reply of a script; the op is unchanged
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

// Why a command was refused before it changed anything. That is certain, because the only write of a script is the last
// step that can fail.
Refusal refusal_of(std::string_view error);

}  // namespace once::redis
