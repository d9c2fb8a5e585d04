#include "guard/operation.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include "base/assert.hpp"
#include "base/text.hpp"
#include "core/json_canonical.hpp"
#include "core/json_text.hpp"

namespace once::guard {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t longest_name = 255;
constexpr Duration longest_ttl = 24h * 365;
constexpr Duration longest_lease = 24h;
constexpr Duration shortest_lease = 100ms;  // it is renewed three times in it
constexpr std::string_view fingerprint_domain = "once claims fingerprint 1";

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= longest_name;
}

struct Writer {
  std::string& out;
  bool valid = true;

  void operator()(std::nullptr_t) { out += "null"; }
  void operator()(bool yes) { out += yes ? "true" : "false"; }
  void operator()(std::integral auto number) { write(number); }
  void operator()(double number) {
    valid = std::isfinite(number);
    if (valid) write(number);
  }
  void operator()(const std::string& text) { append_json_string(out, text); }
  void operator()(const Json& json) { out += json.text; }

 private:
  void write(auto number) {
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    out.append(digits.data(), end);
  }
};

once::OnUnknown on_unknown_of(OnUnknown on_unknown) {
  switch (on_unknown) {
    case OnUnknown::takeover: return once::OnUnknown::takeover;
    case OnUnknown::retry: return once::OnUnknown::retry;
    case OnUnknown::hold: return once::OnUnknown::hold;
  }
  ONCE_ASSERT(false);
}

// Empty: nothing is wrong.
std::string_view mistake_in(const Request& request) {
  if (!is_name(request.tenant)) return "tenant must have 1 to 255 bytes";
  if (!is_name(request.scope)) return "scope must have 1 to 255 bytes";
  if (request.key.empty() != request.inputs.given()) return "there must be a key or inputs, and not both";
  if (request.key.size() > longest_name) return "key must have 1 to 255 bytes";
  if (request.ttl < 1s || request.ttl > longest_ttl) return "ttl must be from a second to a year";
  if (request.lease < shortest_lease || request.lease > longest_lease) return "lease must be from 100 ms to a day";
  if (request.takeover_after < 0s || request.takeover_after > longest_ttl) {
    return "takeover_after must be from zero to a year";
  }
  return {};
}

}  // namespace

std::optional<std::string> canonical(const Inputs& inputs) {
  if (const Json* json = inputs.json()) return canonical_json(json->text);
  std::string text = "{";
  bool valid = true;
  for (const Input& input : *inputs.members()) {
    if (text.size() > 1) text += ',';
    append_json_string(text, input.name);
    text += ':';
    // A text of JSON must be a whole value by itself, or it could bring members of its own.
    const Json* json = std::get_if<Json>(&input.value);
    if (json != nullptr && !canonical_json(json->text)) return std::nullopt;
    Writer writer{text};
    std::visit(writer, input.value);
    valid = valid && writer.valid;
  }
  text += '}';
  return valid ? canonical_json(text) : std::nullopt;
}

std::expected<OperationId, std::string> Operations::id_of(const Request& request) const {
  const bool given = !request.key.empty();
  const std::array<std::string_view, 4> parts = {"claims", request.tenant, request.scope, given ? "key" : "inputs"};
  if (given) return ids_.make(parts, request.key);
  const auto inputs = canonical(request.inputs);
  if (!inputs) return std::unexpected("the inputs are not valid: a name twice, a number that is none, or not JSON");
  return ids_.make(parts, *inputs);
}

std::expected<Op, std::string> Operations::read(const Request& request) const {
  if (const std::string_view mistake = mistake_in(request); !mistake.empty()) {
    return std::unexpected(std::string(mistake));
  }
  const auto id = id_of(request);
  if (!id) return std::unexpected(id.error());
  Op op;
  op.verb = Verb::claim;
  op.id = *id;
  if (!request.fingerprint.empty()) {
    HmacSha256::Stream stream = hmac_.start();
    stream.update_part(fingerprint_domain);
    stream.update_part(request.fingerprint);
    op.fingerprint = {stream.finish()};
  }
  op.terms = {.on_unknown = on_unknown_of(request.on_unknown),
              .takeover_after = request.takeover_after,
              .lease = request.lease,
              .ttl = request.ttl};
  op.tenant = request.tenant;
  op.route = request.scope;
  return op;
}

std::string handle_of(const OperationId& id, const Nonce& nonce) {
  std::string text = to_hex(id);
  text += '.';
  append_hex(text, nonce.view());
  return text;
}

}  // namespace once::guard
