#include "guard/operation.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/assert.hpp"
#include "base/text.hpp"
#include "core/json_canonical.hpp"
#include "core/json_scanner.hpp"
#include "core/json_text.hpp"

namespace once::guard {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t longest_name = 255;
constexpr Duration longest_ttl = 24h * 365;
constexpr Duration longest_lease = 24h;
constexpr Duration shortest_lease = 100ms;  // it is renewed three times per lease
constexpr std::string_view fingerprint_domain = "once claims fingerprint 1";

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= longest_name;
}

// Appends one value in its canonical form; false if it has none.
struct CanonicalValue {
  std::string& out;

  bool operator()(std::nullptr_t) { return word("null"); }
  bool operator()(bool yes) { return word(yes ? "true" : "false"); }
  bool operator()(std::integral auto value) { return number(value); }
  bool operator()(double value) { return std::isfinite(value) && number(value); }
  bool operator()(const std::string& text) {
    // Invalid UTF-8 is refused: different bytes would all become the same character.
    if (!is_utf8(text)) return false;
    append_json_string(out, text);
    return true;
  }
  // Check that it is one whole value, or it could inject members.
  bool operator()(const Json& json) {
    const auto value = canonical_json(json.text);
    if (value) out += *value;
    return value.has_value();
  }

 private:
  bool word(std::string_view text) {
    out += text;
    return true;
  }
  bool number(auto value) {
    std::array<char, 32> digits{};
    const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    return JsonScanner({digits.data(), end}).read_number(out);
  }
};

// Writes names and values directly in the form of canonical_json(): most calls use this path.
std::optional<std::string> canonical_members(const std::vector<Input>& members) {
  std::vector<const Input*> sorted;
  sorted.reserve(members.size());
  bool ascii = true;
  for (const Input& each : members) {
    sorted.push_back(&each);
    if (!is_utf8(each.name)) return std::nullopt;
    ascii = ascii && std::ranges::all_of(each.name, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  }
  const auto name_of = [](const Input* input) -> const std::string& { return input->name; };
  std::ranges::sort(sorted, {}, name_of);
  if (std::ranges::adjacent_find(sorted, {}, name_of) != sorted.end()) return std::nullopt;
  std::string text = "{";
  for (const Input* each : sorted) {
    if (text.size() > 1) text += ',';
    append_json_string(text, each->name);
    text += ':';
    if (!std::visit(CanonicalValue{text}, each->value)) return std::nullopt;
  }
  text += '}';
  // Outside ASCII, order by UTF-16 units differs from byte order.
  return ascii ? std::move(text) : canonical_json(text);
}

core::OnUnknown on_unknown_of(OnUnknown on_unknown) {
  switch (on_unknown) {
    case OnUnknown::takeover: return core::OnUnknown::takeover;
    case OnUnknown::retry: return core::OnUnknown::retry;
    case OnUnknown::hold: return core::OnUnknown::hold;
  }
  ONCE_ASSERT(false);
}

// Empty: no mistake.
std::string_view mistake_in(const Request& request) {
  if (!is_name(request.tenant)) return "tenant must have 1 to 255 bytes";
  if (!is_name(request.scope)) return "scope must have 1 to 255 bytes";
  if (request.key.empty() != request.inputs.given()) return "either key or inputs is required, not both";
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
  return canonical_members(*inputs.members());
}

std::expected<OperationId, std::string> Operations::id_of(const Request& request) const {
  const bool given = !request.key.empty();
  const std::array<std::string_view, 4> parts = {"claims", request.tenant, request.scope, given ? "key" : "inputs"};
  if (given) return ids_.make(parts, request.key);
  const auto inputs = canonical(request.inputs);
  if (!inputs)
    return std::unexpected(
        "the inputs are not valid: a duplicate name, an invalid number, or text that is not UTF-8 or not JSON");
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
    op.fingerprint = {stream.digest()};
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
