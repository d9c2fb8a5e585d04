// A handler's response, read as strictly as that of a backend; and replies, as the program around the gate sends them.
#pragma once

#include <expected>
#include <memory>
#include <optional>
#include <string>

#include <once/gate.hpp>

#include "gateway/connection/reply.hpp"
#include "http/head.hpp"

namespace once::gate {

// Stays where it is: the head has views of its text.
struct PreparedResponse {
  std::string text;
  http::ResponseHead head;
  std::string body;
  BodyKept body_kept = BodyKept::yes;
  std::optional<std::string> length;  // that the handler gave for a body that is not kept
  bool dated = false;
};

// The error is for people: what is wrong with it.
std::expected<std::unique_ptr<PreparedResponse>, std::string> prepare(const Response& response);

// `made`: the response that the reply is to, if there is one.
Reply sendable(const gateway::Reply& reply, const PreparedResponse* made);

// "Name: value\r\n" each.
std::vector<Field> fields_of(std::string_view lines);

Ending ending_of(gateway::Ending ending);

}  // namespace once::gate
