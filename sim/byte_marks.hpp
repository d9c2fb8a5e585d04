// Marks in simulated requests and responses that reveal bytes sent to a wrong caller, and tell the model which
// operation a request belongs to.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/history.hpp"
#include "sim/message_reader.hpp"

namespace once::sim {

// Callers from this number on send requests without keys.
inline constexpr unsigned first_stranger = 1000;
// A path that must never be requested: it only occurs in requests smuggled inside others.
inline constexpr std::string_view smuggled_path = "/smuggled";
// A route in shadow mode. Its callers reuse keys, and each request has its own number.
inline constexpr std::string_view shadow_route = "/shadow/**";
inline constexpr unsigned first_shadow_caller = 900;
inline constexpr unsigned shadow_callers = 3;
inline constexpr std::string_view number_field = "X-Number";
// The last bytes of every body that a backend sends: without them it is incomplete.
inline constexpr std::string_view body_end = " end.";

// A field of responses whose end is marked. A response that ends with its connection may be cut off without notice.
inline constexpr std::string_view framed_field = "X-Framed";

// "tok-7.": identifies the caller that a text belongs to.
std::string token_of(unsigned caller);
// A token of another caller in the text; empty if there is none.
std::string foreign_token(std::string_view text, unsigned caller);

// Operations that share a key: each has another route or host.
struct WireName {
  std::size_t route;
  unsigned host;
  unsigned key;
};
WireName wire_name(unsigned operation, std::size_t routes);
unsigned operation_of(const WireName& name, std::size_t routes);

// The same for every caller and operation with that key: only the scope distinguishes them.
std::string keyed_body(unsigned key, unsigned content);
// A complete head with a length: the model can name its operation.
std::string keyed_head(const Asked& asked, std::size_t routes);
std::optional<Asked> asked_in(const Message& request, std::size_t routes);
std::optional<unsigned> caller_in(const Message& request);

}  // namespace once::sim
