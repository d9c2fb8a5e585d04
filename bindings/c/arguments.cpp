#include "arguments.hpp"

#include <algorithm>
#include <limits>

namespace once::abi {

namespace {

// A program built against an older header passes a shorter struct: the missing members are zero. A longer struct is
// accepted if the members that this version does not know are zero.
template <class T>
std::expected<T, Mistake> sized(const T* given, std::size_t least) {
  if (given == nullptr) return std::unexpected("an argument is NULL");
  if (given->size < least) return std::unexpected("the size of a struct is not set");
  T copy{};
  std::memcpy(&copy, given, std::min(given->size, sizeof(T)));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  const bool unknown = given->size > sizeof(T) &&
                       std::any_of(bytes + sizeof(T), bytes + given->size, [](unsigned char b) { return b != 0; });
  if (unknown) return std::unexpected("a struct has members that this version of the library does not know");
  return copy;
}

std::expected<std::vector<gate::Field>, Mistake> fields_given(const once_field* fields, std::size_t count) {
  if (fields == nullptr && count > 0) return std::unexpected("a list of fields is NULL");
  std::vector<gate::Field> all;
  all.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back({.name = text_of(fields[i].name), .value = text_of(fields[i].value)});
  }
  return all;
}

void set_time(guard::Duration& time, std::uint64_t milliseconds) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() / 1'000'000);
  if (milliseconds != 0) time = guard::Duration(static_cast<std::int64_t>(std::min(milliseconds, most)));
}

}  // namespace

std::string text_of(once_bytes bytes) {
  if (bytes.size == 0 || bytes.data == nullptr) return {};
  return {static_cast<const char*>(bytes.data), bytes.size};
}

std::expected<gate::Options, Mistake> options_of(const once_options* options) {
  const auto given = sized(options, offsetof(once_options, log));
  if (!given) return std::unexpected(given.error());
  auto settings = fields_given(given->settings, given->setting_count);
  if (!settings) return std::unexpected(settings.error());
  if (given->log > ONCE_LOG_OFF) return std::unexpected("log is none of ONCE_LOG_…");
  return gate::Options{.config_file = text_of(given->config_file),
                       .config_text = text_of(given->config_text),
                       .settings = *std::move(settings)};
}

std::expected<gate::Request, Mistake> request_of(const once_request* request, bool with_body) {
  const auto given = sized(request, offsetof(once_request, peer));
  if (!given) return std::unexpected(given.error());
  auto fields = fields_given(given->fields, given->field_count);
  if (!fields) return std::unexpected(fields.error());
  if (given->method.size == 0 || given->target.size == 0) return std::unexpected("method or target is empty");
  if ((given->flags & ~static_cast<std::uint32_t>(ONCE_REQUEST_FIELDS_JOINED)) != 0) {
    return std::unexpected("a flag of the request is not known");
  }
  const bool joined = (given->flags & ONCE_REQUEST_FIELDS_JOINED) != 0;
  gate::Request made{.method = text_of(given->method),
                     .target = text_of(given->target),
                     .fields = *std::move(fields),
                     .peer = text_of(given->peer),
                     .scheme = text_of(given->scheme),
                     .caller = text_of(given->caller),
                     .tls_subject = text_of(given->tls_subject),
                     .tls_issuer = text_of(given->tls_issuer),
                     .repeated_fields = joined ? gate::RepeatedFields::joined : gate::RepeatedFields::kept};
  if (with_body) made.body = text_of(given->body);
  return made;
}

std::expected<gate::Response, Mistake> response_of(const once_response* response) {
  const auto given = sized(response, offsetof(once_response, body));
  if (!given) return std::unexpected(given.error());
  auto fields = fields_given(given->fields, given->field_count);
  if (!fields) return std::unexpected(fields.error());
  if ((given->flags & ~static_cast<std::uint32_t>(ONCE_RESPONSE_BODY_NOT_KEPT)) != 0) {
    return std::unexpected("a flag of the response is not known");
  }
  const bool not_kept = (given->flags & ONCE_RESPONSE_BODY_NOT_KEPT) != 0;
  if (not_kept && given->body.size != 0) return std::unexpected("a response whose body is not kept must have no body");
  return gate::Response{.status = given->status,
                        .reason = text_of(given->reason),
                        .fields = *std::move(fields),
                        .body = text_of(given->body),
                        .body_kept = not_kept ? gate::BodyKept::no : gate::BodyKept::yes};
}

std::expected<std::vector<std::string>, Mistake> names_of(const once_bytes* names, std::size_t count) {
  if (names == nullptr && count > 0) return std::unexpected("a list of names is NULL");
  std::vector<std::string> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(text_of(names[i]));
  return all;
}

std::expected<guard::Request, Mistake> work_of(const once_work* work) {
  const auto given = sized(work, offsetof(once_work, fingerprint));
  if (!given) return std::unexpected(given.error());
  auto store_only = names_of(given->store_only, given->store_only_count);
  if (!store_only) return std::unexpected(store_only.error());
  auto never_store = names_of(given->never_store, given->never_store_count);
  if (!never_store) return std::unexpected(never_store.error());
  guard::Request made;
  if (given->tenant.size != 0) made.tenant = text_of(given->tenant);
  made.scope = text_of(given->scope);
  made.key = text_of(given->key);
  if (given->inputs.size != 0) made.inputs = Json{text_of(given->inputs)};
  made.fingerprint = text_of(given->fingerprint);
  set_time(made.ttl, given->ttl_ms);
  set_time(made.takeover_after, given->takeover_after_ms);
  set_time(made.lease, given->lease_ms);
  set_time(made.wait, given->wait_ms);
  made.store_only = *std::move(store_only);
  made.never_store = *std::move(never_store);
  switch (given->on_unknown) {
    case ONCE_TAKEOVER: made.on_unknown = guard::OnUnknown::takeover; break;
    case ONCE_RETRY: made.on_unknown = guard::OnUnknown::retry; break;
    case ONCE_HOLD: made.on_unknown = guard::OnUnknown::hold; break;
    default: return std::unexpected("on_unknown is none of ONCE_TAKEOVER, ONCE_RETRY and ONCE_HOLD");
  }
  return made;
}

}  // namespace once::abi
