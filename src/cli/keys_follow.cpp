// once keys show --follow: writes the body of a response to stdout, live if it still streams.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/base64.hpp"
#include "cli/keys.hpp"
#include "cli/output.hpp"

namespace once::cli {

namespace {

std::string body_part(const JsonTree& answer) {
  const JsonTree* text = answer.find("body");
  if (text != nullptr && text->string() != nullptr) return *text->string();
  const JsonTree* encoded = answer.find("body_base64");
  if (encoded == nullptr || encoded->string() == nullptr) return "";
  return from_base64(*encoded->string()).value_or("");
}

// A part may end inside a character. Replace a last C2: it may begin a two-byte control character.
std::string for_terminal(std::string part) {
  if (part.ends_with('\xC2')) part.back() = '?';
  return plain(std::move(part), "\n\t");
}

// Reports how the body ended. A partial body that looks complete would mislead scripts.
int report_end(const std::string& state) {
  if (state == "whole") return 0;
  if (state == "stopped") {
    print_error("the response was stopped here");
    return 0;
  }
  if (state == "broken") {
    print_error("the response broke off here: its outcome is unknown");
  } else if (state == "not_kept") {
    print_error("the body of the response was not kept");
  } else {
    print_error("this key has no response");
  }
  return 1;
}

}  // namespace

// No pause is needed here: the gateway waits before it answers that there is nothing new.
int follow_body(const KeysOptions& options) {
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  std::string cursor;
  for (;;) {
    const AdminAnswer answer =
        ask_admin(options.admin, "GET", fmt::format("/v1/keys/{}/body?cursor={}", options.id, cursor));
    if (answer.status != 200) return report(answer);
    const auto part = JsonTree::parse(answer.body);
    if (!part) return report({.status = 1, .body = {}, .error = "the response is not a part of a body"});
    std::string body = body_part(*part);
    if (terminal) body = for_terminal(std::move(body));
    const bool written = std::fwrite(body.data(), 1, body.size(), stdout) == body.size() && std::fflush(stdout) == 0;
    if (!written) return 1;
    const JsonTree* next = part->find("next");
    const std::string state = text_of(*part, "state");
    if (next == nullptr || next->string() == nullptr) return report_end(state);
    cursor = *next->string();
  }
}

}  // namespace once::cli
