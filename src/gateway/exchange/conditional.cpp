#include "gateway/exchange/conditional.hpp"

#include <algorithm>
#include <array>

#include "core/headers.hpp"

namespace once::gateway {

using http::Framing;

namespace {

bool starts_with_name(std::string_view name, std::string_view start) {
  return name.size() >= start.size() && same_name(name.substr(0, start.size()), start);
}

bool is_condition(std::string_view name) {
  return same_name(name, "If-Match") || same_name(name, "If-None-Match");
}

// An endless stream cannot have a tag.
bool never_ends(const http::ResponseHead& head) {
  const std::string_view type = head.find("Content-Type").value_or("");
  return starts_with_name(type, "text/event-stream") || starts_with_name(type, "multipart/x-mixed-replace");
}

// Whether a field of a write belongs on the GET of the same representation: fields that select the representation or
// identify the caller. Body fields, conditions, and fields that change the method do not.
bool selects(std::string_view name, const Policy& policy) {
  constexpr std::array others = {
      std::string_view("Expect"),      std::string_view("Range"),     std::string_view("Digest"),
      std::string_view("Repr-Digest"), std::string_view("Prefer"),    std::string_view("Accept-Encoding"),
      std::string_view("Want-Digest"), std::string_view("Signature"), std::string_view("Signature-Input")};
  const auto named = [name](std::string_view other) { return same_name(name, other); };
  if (starts_with_name(name, "Content-") || starts_with_name(name, "If-")) return false;
  return !overrides_method(name) && std::ranges::none_of(others, named) && !same_name(name, policy.key.header);
}

}  // namespace

bool overrides_method(std::string_view name) {
  return same_variable(name, "X-HTTP-Method-Override") || same_variable(name, "X-HTTP-Method") ||
         same_variable(name, "X-Method-Override");
}

bool tags_response(const Policy& policy, const http::RequestHead& head) {
  return policy.conditional.etag == Etags::on && policy.mode == Mode::enforce && head.method == Method::get &&
         !head.upgrade && head.framing.kind == Framing::Kind::none && !head.find("Range");
}

Tagging begin_tagging(http::RequestHead& head) {
  Tagging tagging;
  bool conditional = false;
  bool understood = true;
  for (const http::Field& field : head.fields) {
    if (!same_name(field.name, "If-None-Match")) continue;
    conditional = true;
    understood = tagging.none_match.add(field.value) && understood;
  }
  // An If-None-Match that cannot be parsed matches nothing, so the client gets the whole response, which is always
  // correct.
  if (!understood) tagging.none_match = TagList();
  std::erase_if(head.fields, [conditional](const http::Field& field) {
    // If-None-Match overrides If-Modified-Since, and a backend that knows only dates must not decide by the date.
    return same_name(field.name, "Accept-Encoding") || (conditional && same_name(field.name, "If-Modified-Since"));
  });
  return tagging;
}

bool may_be_tagged(const http::ResponseHead& head) {
  if (head.status != 200 || head.find("ETag") || never_ends(head)) return false;
  return head.framing.kind != Framing::Kind::length || head.framing.length <= most_tagged_body;
}

std::string etag_of(const http::ResponseHead& head, std::string_view body) {
  return make_etag({.content_type = head.find("Content-Type").value_or(""),
                    .content_encoding = head.find("Content-Encoding").value_or(""),
                    .body = body});
}

bool describes_body(std::string_view name) {
  if (same_name(name, "Last-Modified") || same_name(name, "Digest") || same_name(name, "Repr-Digest")) return true;
  return starts_with_name(name, "Content-") && !same_name(name, "Content-Location") &&
         !starts_with_name(name, "Content-Security-Policy");
}

void strip_conditions(http::RequestHead& head) {
  std::erase_if(head.fields, [](const http::Field& field) { return is_condition(field.name); });
}

http::RequestHead as_get(const http::RequestHead& write, const Policy& policy) {
  http::RequestHead get = write;
  get.method = Method::get;
  get.method_text = "GET";
  get.framing = {};
  get.upgrade = false;
  get.expects_continue = false;
  std::erase_if(get.fields, [&](const http::Field& field) { return !selects(field.name, policy); });
  return get;
}

std::optional<Precondition> read_precondition(const http::RequestHead& head) {
  Precondition precondition;
  for (const http::Field& field : head.fields) {
    if (same_name(field.name, "If-Match") && !precondition.match.add(field.value)) return std::nullopt;
    if (same_name(field.name, "If-None-Match") && !precondition.none_match.add(field.value)) return std::nullopt;
  }
  return precondition;
}

}  // namespace once::gateway
