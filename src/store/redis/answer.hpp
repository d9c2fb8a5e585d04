// Interprets a reply for an op.
#pragma once

#include <cstdint>
#include <string>

#include "store/redis/reply.hpp"
#include "store/store.hpp"

namespace once::redis {

enum class Read : std::uint8_t {
  answered,  // the op has its results; no write has to be awaited
  written,   // likewise, but its write must be on the replicas before the op is answered
  refused,   // the op has its results: this version cannot read the record
  // nothing was changed: the claim arrived after its deadline; the op has the server's time and may be sent again
  late,
  nonsense,  // not a reply of a script; the op is unchanged
};

// `reply` is not an error reply.
Read read_reply(Op& op, const redisReply& reply);

enum class Refusal : std::uint8_t {
  lasting,      // permanent: report it
  full,         // Redis is full: report it
  no_script,    // load the scripts
  redirection,  // read_redirection() says where
  not_now,      // retry in a moment
  not_master,   // find the master
};

// Why a command was refused before it changed anything. That is certain, because a script's only write is its last step
// that can fail.
Refusal refusal_of(std::string_view error);

}  // namespace once::redis
