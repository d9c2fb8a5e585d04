// The Redis protocol: commands as bytes, replies as parsed by hiredis, and the codes of error replies.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <hiredis/hiredis.h>

#include "base/clock.hpp"

namespace once::redis {

struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
// Functions that return one never return null.
using Reply = std::unique_ptr<redisReply, FreeReply>;

inline std::string_view text_of(const redisReply& reply) {
  return reply.str == nullptr ? std::string_view() : std::string_view(reply.str, reply.len);
}
inline bool is_error(const redisReply& reply) {
  return reply.type == REDIS_REPLY_ERROR;
}
inline bool is_text(const redisReply& reply) {
  return reply.type == REDIS_REPLY_STRING || reply.type == REDIS_REPLY_STATUS;
}
inline bool is_array(const redisReply& reply) {
  return reply.type == REDIS_REPLY_ARRAY;
}

// Parses the reply to TIME.
std::optional<Time> time_in(const redisReply& reply);

// Appends *COUNT; that many append_argument() calls must follow.
void append_command_head(std::string& out, std::size_t arguments);
void append_argument(std::string& out, std::string_view argument);
void append_command(std::string& out, std::initializer_list<std::string_view> arguments);

// "MOVED" in "MOVED 3999 127.0.0.1:6381". For an error inside a script, the code of that error: before Redis 7 it is
// embedded in "ERR Error running script … -OOM command not allowed".
std::string_view error_code(std::string_view error);

}  // namespace once::redis
