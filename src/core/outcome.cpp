#include "core/outcome.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/assert.hpp"
#include "core/fingerprint.hpp"
#include "core/headers.hpp"
#include "core/json_canonical.hpp"

namespace once::core {

namespace {

constexpr char version = 1;
constexpr char version_in_chunks = 2;
constexpr std::uint64_t no_length = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t head_size = 24;
constexpr int max_status = 999;
constexpr std::string_view large_body_field = "Idempotency-Request-Body: ";
constexpr std::string_view end_of_line = "\r\n";

bool is_gateway_error(int status) {
  return status >= 502 && status <= 504;
}

Settlement settle_answered(int status, BodyKept body_kept, const RecordPolicy& policy) {
  using enum Settlement::Kind;
  if (contains(policy.refusals, status)) return {release};
  if (contains(policy.statuses, status)) return {succeed, body_kept};
  if (is_gateway_error(status) && policy.gateway_errors == GatewayErrors::unknown) return {unknown};
  return {fail};
}

Settlement settle_by_policy(BackendPolicy::Record record, int status, BodyKept body_kept, const RecordPolicy& policy) {
  switch (record) {
    case BackendPolicy::Record::by_status: return settle_answered(status, body_kept, policy);
    case BackendPolicy::Record::final: return {Settlement::Kind::succeed, body_kept};
    case BackendPolicy::Record::retry: return {Settlement::Kind::fail};
    case BackendPolicy::Record::no_store: return {Settlement::Kind::release};
  }
  ONCE_ASSERT(false);
}

// A truncated number or word may look like another one; objects, arrays and strings end visibly. Surrounding white
// space is ignored.
bool has_own_end(std::string_view json) {
  constexpr std::string_view space = " \t\r\n";
  const std::size_t first = json.find_first_not_of(space);
  return first != std::string_view::npos && std::string_view("{[\"").contains(json[first]);
}

template <class Integer>
void append_integer(std::string& out, Integer value) {
  for (std::size_t i = 0; i < sizeof value; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

template <class Integer>
Integer read_integer(std::string_view bytes, std::size_t at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return static_cast<Integer>(value);
}

std::uint32_t length32(std::size_t length) {
  ONCE_ASSERT(length <= std::numeric_limits<std::uint32_t>::max());  // the limits on headers are far lower
  return static_cast<std::uint32_t>(length);
}

// Removes the large-body field from the start of the headers and returns it.
std::string_view take_large_body(std::string_view& headers) {
  if (!headers.starts_with(large_body_field)) return {};
  const std::size_t end = headers.find(end_of_line);
  if (end == std::string_view::npos || end == large_body_field.size()) return {};
  const std::string_view value = headers.substr(large_body_field.size(), end - large_body_field.size());
  headers.remove_prefix(end + end_of_line.size());
  return value;
}

}  // namespace

Delivery weigh(const UnframedResponse& response, const RecordPolicy& policy) {
  if (policy.unframed != Unframed::whole) return Delivery::unframed;
  if (response.end_announced) return Delivery::whole;
  // A stream of documents may have been cut off between two of them.
  const bool one_document = is_json(response.content_type) && !response.encoded &&
                            !same_name(media_type(response.content_type), "application/stream+json");
  const bool whole_json = one_document && has_own_end(response.body) && canonical_json(response.body).has_value();
  return whole_json ? Delivery::whole : Delivery::unframed;
}

Settlement settle(Delivery delivery, int status, const BackendPolicy& backend, const RecordPolicy& policy) {
  switch (delivery) {
    case Delivery::not_sent:
    case Delivery::busy: return {Settlement::Kind::release};
    case Delivery::lost:
    case Delivery::timed_out:
    case Delivery::truncated: return {Settlement::Kind::unknown};
    case Delivery::streaming:
    case Delivery::whole: return settle_by_policy(backend.record, status, BodyKept::yes, policy);
    case Delivery::unframed: {
      const Settlement as_whole = settle_by_policy(backend.record, status, BodyKept::yes, policy);
      const bool recorded = as_whole.kind == Settlement::Kind::succeed;
      return recorded && policy.unframed != Unframed::keep ? Settlement{Settlement::Kind::unknown} : as_whole;
    }
    case Delivery::oversize: {
      const bool is_final = backend.record == BackendPolicy::Record::final;
      return settle_by_policy(is_final ? backend.record : BackendPolicy::Record::by_status, status, BodyKept::no,
                              policy);
    }
  }
  ONCE_ASSERT(false);
}

StatusSet statuses(std::initializer_list<std::pair<int, int>> ranges) {
  StatusSet set;
  for (const auto& [first, last] : ranges) {
    const int end = std::min(last, static_cast<int>(set.size()) - 1);
    for (int status = std::max(first, 0); status <= end; ++status) set.set(static_cast<std::size_t>(status));
  }
  return set;
}

bool contains(const StatusSet& set, int status) {
  return status >= 0 && static_cast<std::size_t>(status) < set.size() && set.test(static_cast<std::size_t>(status));
}

StatusSet default_statuses() {
  return statuses({{200, 499}});
}

StatusSet default_refusals() {
  return statuses({{401, 403}, {407, 408}, {413, 413}, {425, 425}, {429, 429}});
}

RecordPolicy default_record_policy() {
  RecordPolicy policy;
  policy.statuses = default_statuses();
  policy.refusals = default_refusals();
  return policy;
}

std::string encode(const StoredResponse& response) {
  std::string out;
  encode_into(out, response);
  return out;
}

void encode_into(std::string& out, const StoredResponse& response) {
  ONCE_ASSERT(response.status >= 0 && response.status <= max_status);  // three digits: the parser accepts no more
  ONCE_ASSERT(!response.in_chunks || response.body.empty());
  const std::uint64_t body = response.in_chunks ? sizeof(std::uint64_t) : response.body.size();
  const std::size_t headers =
      response.headers.size() +
      (response.large_body.empty() ? 0 : large_body_field.size() + response.large_body.size() + end_of_line.size());
  out.clear();
  out.reserve(head_size + response.reason.size() + response.original_request_id.size() + headers + body);
  out.push_back(response.in_chunks ? version_in_chunks : version);
  out.push_back(0);
  append_integer(out, static_cast<std::uint16_t>(response.status));
  append_integer(out, length32(response.reason.size()));
  append_integer(out, length32(response.original_request_id.size()));
  append_integer(out, length32(headers));
  append_integer(out, body);
  out.append(response.reason);
  out.append(response.original_request_id);
  if (!response.large_body.empty()) out.append(large_body_field).append(response.large_body).append(end_of_line);
  out.append(response.headers);
  out.append(response.body);
  if (response.in_chunks) append_integer(out, response.in_chunks->length.value_or(no_length));
}

std::optional<StoredResponse> decode(std::string_view bytes) {
  if (bytes.size() < head_size || bytes[1] != 0) return std::nullopt;
  const bool in_chunks = bytes[0] == version_in_chunks;
  if (bytes[0] != version && !in_chunks) return std::nullopt;
  StoredResponse response;
  response.status = read_integer<std::uint16_t>(bytes, 2);
  if (response.status > max_status) return std::nullopt;
  const std::uint64_t reason = read_integer<std::uint32_t>(bytes, 4);
  const std::uint64_t request_id = read_integer<std::uint32_t>(bytes, 8);
  const std::uint64_t headers = read_integer<std::uint32_t>(bytes, 12);
  const std::uint64_t body = read_integer<std::uint64_t>(bytes, 16);

  std::string_view rest = bytes.substr(head_size);
  // Three 32-bit lengths cannot overflow 64 bits; the body's length is only compared.
  const std::uint64_t before_body = reason + request_id + headers;
  if (before_body > rest.size() || rest.size() - before_body != body) return std::nullopt;
  const auto take = [&rest](std::uint64_t length) {
    const std::string_view part = rest.substr(0, length);
    rest.remove_prefix(length);
    return part;
  };
  response.reason = take(reason);
  response.original_request_id = take(request_id);
  response.headers = take(headers);
  response.large_body = take_large_body(response.headers);
  if (!in_chunks) {
    response.body = rest;
    return response;
  }
  if (rest.size() != sizeof(std::uint64_t)) return std::nullopt;
  response.in_chunks.emplace();
  const auto length = read_integer<std::uint64_t>(rest, 0);
  if (length != no_length) response.in_chunks->length = length;
  return response;
}

}  // namespace once::core
