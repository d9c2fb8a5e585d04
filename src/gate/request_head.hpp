// The head of a request, parsed by the gateway's own strict parser, so that it means the same as there.
#pragma once

#include <optional>
#include <string>

#include <once/gate.hpp>

#include "core/problem.hpp"
#include "gateway/settings.hpp"
#include "http/head.hpp"

namespace once::gate {

// A copy of a request and its head. It must not move, because the head has views of it.
struct RequestText {
  explicit RequestText(Request the_request) : request(std::move(the_request)) {}
  RequestText(const RequestText&) = delete;
  RequestText& operator=(const RequestText&) = delete;

  // The problem to answer with, if the head is malformed.
  std::optional<Problem> parse(const Limits& limits);
  std::string_view peer() const;
  bool is_secure() const;
  bool are_fields_joined() const { return request.repeated_fields == RepeatedFields::joined; }

  Request request;
  http::RequestHead head;

 private:
  std::string text_;
};

}  // namespace once::gate
