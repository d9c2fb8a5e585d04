// Header and method names: which ones the gateway forwards, stores, or reserves for itself. Names are compared without
// regard to ASCII case, as in HTTP. These functions run for every header of every message, so they compare lengths
// first and never allocate.
#pragma once

#include <initializer_list>
#include <string_view>

#include "core/policy.hpp"

namespace once::core {

// ASCII only, whatever the locale.
constexpr char to_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

bool same_name(std::string_view a, std::string_view b);

// About one connection, not about the message: never passed on, never stored. Proxy-Authenticate and
// Proxy-Authorization count: they are between the client and the proxy that asked.
bool is_hop_by_hop(std::string_view name);

// Whether a Connection header (a comma-separated list) makes `name` hop-by-hop for this message.
bool named_in_connection(std::string_view connection_value, std::string_view name);

// Only Once says these about a keyed request. A backend's are dropped there: not forwarded, not stored. Where Once does
// not protect, a backend may have an idempotency of its own, and its headers pass.
bool is_reserved_response_header(std::string_view name);

// In the recorded response of a stream that its caller stopped.
inline constexpr std::string_view stopped_field = "Idempotency-Stopped";

// As same_name(), with _ as -: backends that make variables of headers (CGI, WSGI, Rack) cannot tell these two apart.
bool same_variable(std::string_view a, std::string_view b);

// Only Once says these to a backend. A client's are dropped.
bool is_reserved_request_header(std::string_view name);

// Says where a client wants to go on in a response that it has a part of.
bool is_resume_header(std::string_view name);

// Whether a response header of the backend belongs to the recorded outcome. Not stored: hop-by-hop and reserved
// headers, Set-Cookie (a session belongs to the first caller's connection, not to every retry), Date and
// Content-Length (written anew for each reply), X-Request-Id (each reply carries its own) and the policy's own list.
// A header named in the response's Connection header must be left out by the caller, who has that header at hand.
bool is_stored(std::string_view name, const RecordPolicy& policy);

// RFC 9110 8.6: Content-Length is not sent with 1xx and 204. With 304 and in answer to HEAD it tells the length of the
// body that a GET would have had.
bool may_have_length(int status);

// Methods are case-sensitive (RFC 9110): "post" is Method::other.
Method parse_method(std::string_view name);
// "post", "Get": frameworks that put methods into capitals take it for one that it is not.
bool misspells_method(std::string_view name);
// The inverse; empty for Method::other, which has no one name.
std::string_view method_name(Method method);
// GET, HEAD, OPTIONS, TRACE and QUERY (RFC 10008) ask for nothing to be done.
bool is_safe(Method method);

MethodSet methods(std::initializer_list<Method> list);
bool contains(const MethodSet& set, Method method);

}  // namespace once::core
