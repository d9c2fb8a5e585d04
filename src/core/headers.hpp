// Which headers the gateway forwards, stores or reserves for itself, and method names. Header names are compared
// without ASCII case, as in HTTP. These functions run for every header of every message, so they compare lengths first
// and never allocate.
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

// Fields of one connection: never forwarded or stored. Includes Proxy-Authenticate and Proxy-Authorization, which
// belong to the client and the next proxy.
bool is_hop_by_hop(std::string_view name);

// Whether a Connection header (a comma-separated list) makes `name` hop-by-hop for this message.
bool named_in_connection(std::string_view connection_value, std::string_view name);

// Response fields that only Once sets on keyed requests; a backend's are dropped there, neither forwarded nor stored.
// On unprotected routes the backend may have its own idempotency, so its fields pass.
bool is_reserved_response_header(std::string_view name);

// A field in the recorded response of a stream that its caller stopped.
inline constexpr std::string_view stopped_field = "Idempotency-Stopped";

// Like same_name(), but _ equals -: backends that turn headers into variables (CGI, WSGI, Rack) cannot distinguish
// these.
bool same_variable(std::string_view a, std::string_view b);

// Request fields that only Once sends to a backend; a client's are dropped.
bool is_reserved_request_header(std::string_view name);

// Whether the field says where a client wants to resume a response.
bool is_resume_header(std::string_view name);

// Whether a backend's response header belongs to the recorded outcome. Not stored: hop-by-hop and reserved headers,
// Set-Cookie (a session belongs to the first caller's connection, not to every retry), Date and Content-Length (set on
// each reply), X-Request-Id (each reply has its own) and the policy's own list. The caller must omit headers that the
// response's Connection header names.
bool is_stored(std::string_view name, const RecordPolicy& policy);

// RFC 9110 8.6: 1xx and 204 have no Content-Length. In a 304 and in a response to HEAD it is the length that the body
// of a GET would have.
bool may_have_length(int status);

// Methods are case-sensitive (RFC 9110): "post" is Method::other.
Method parse_method(std::string_view name);
// A method in other case, such as "post" or "Get": frameworks that convert methods to upper case would take it for a
// standard one.
bool misspells_method(std::string_view name);
// The inverse of parse_method(); empty for Method::other.
std::string_view method_name(Method method);
// GET, HEAD, OPTIONS, TRACE and QUERY (RFC 10008), which are defined to change nothing.
bool is_safe(Method method);

MethodSet methods(std::initializer_list<Method> list);
bool contains(const MethodSet& set, Method method);

}  // namespace once::core
