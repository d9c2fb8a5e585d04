#include "store/redis/reply.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace once::redis {

std::optional<Time> time_in(const redisReply& reply) {
  if (!is_array(reply) || reply.elements != 2) return std::nullopt;
  const auto seconds = parse_number(text_of(*reply.element[0]));
  const auto microseconds = parse_number(text_of(*reply.element[1]));
  if (!seconds || !microseconds) return std::nullopt;
  return Time(Duration(static_cast<Duration::rep>(*seconds * 1000 + *microseconds / 1000)));
}

void append_command_head(std::string& out, std::size_t arguments) {
  out += '*';
  append_number(out, arguments);
  out += "\r\n";
}

void append_argument(std::string& out, std::string_view argument) {
  out += '$';
  append_number(out, argument.size());
  out += "\r\n";
  out += argument;
  out += "\r\n";
}

void append_command(std::string& out, std::initializer_list<std::string_view> arguments) {
  append_command_head(out, arguments.size());
  for (const std::string_view argument : arguments) append_argument(out, argument);
}

std::string_view error_code(std::string_view error) {
  if (error.starts_with("ERR Error running script")) {
    if (const std::size_t inner = error.rfind(": -"); inner != std::string_view::npos) error.remove_prefix(inner + 3);
  }
  return error.substr(0, std::min(error.find(' '), error.size()));
}

}  // namespace once::redis
