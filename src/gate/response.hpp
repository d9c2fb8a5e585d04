// A handler's response, parsed as strictly as a backend's, and replies in the form that the host program sends.
#pragma once

#include <expected>
#include <memory>
#include <optional>
#include <string>

#include <once/gate.hpp>

#include "gateway/connection/reply.hpp"
#include "http/head.hpp"

namespace once::gate {

// It must not move, because the head has views of its text.
struct PreparedResponse {
  std::string text;
  http::ResponseHead head;
  std::string body;
  BodyKept body_kept = BodyKept::yes;
  std::optional<std::string> length;  // given by the handler for a body that is not kept
  bool dated = false;
};

// The error describes what is wrong with the response.
std::expected<std::unique_ptr<PreparedResponse>, std::string> prepare(const Response& response);

// `made` is the handler's response, if there is one.
Reply sendable(const gateway::Reply& reply, const PreparedResponse* made);

std::vector<Field> fields_of(FieldsView fields);

Ending ending_of(gateway::Ending ending);

}  // namespace once::gate
