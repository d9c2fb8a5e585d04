// Marks in simulated requests and responses, which reveal bytes that reach the wrong caller and tell the model which
// operation a request belongs to.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/history.hpp"
#include "sim/message_reader.hpp"

namespace once::sim {

// Callers whose requests have no key begin here.
inline constexpr unsigned first_stranger = 1000;
// A path that must never be requested: only a smuggled request inside another one names it.
inline constexpr std::string_view smuggled_path = "/smuggled";
// A route in shadow mode. Callers there come again with the same keys, and each request has a number of its own.
inline constexpr std::string_view shadow_route = "/shadow/**";
inline constexpr unsigned first_shadow_caller = 900;
inline constexpr unsigned shadow_callers = 3;
inline constexpr std::string_view number_field = "X-Number";
// The last bytes of every body that a backend sends: without them it is not whole.
inline constexpr std::string_view body_end = " end.";

// In responses whose end is known: one that ends with its connection may be cut off anywhere, and nobody can tell.
inline constexpr std::string_view framed_field = "X-Framed";

// "tok-7.": which caller a text belongs to.
std::string token_of(unsigned caller);
// A token in the text that is not this caller's; empty if there is none.
std::string foreign_token(std::string_view text, unsigned caller);

// Operations that share a key: each has another route or another host.
struct WireName {
  std::size_t route;
  unsigned host;
  unsigned key;
};
WireName wire_name(unsigned operation, std::size_t routes);
unsigned operation_of(const WireName& name, std::size_t routes);

// The same for every caller and every operation with that key: only the scope keeps them apart.
std::string keyed_body(unsigned key, unsigned content);
// As a whole, framed by its length: what the model needs to name the operation.
std::string keyed_head(const Asked& asked, std::size_t routes);
std::optional<Asked> asked_in(const Message& request, std::size_t routes);
std::optional<unsigned> caller_in(const Message& request);

}  // namespace once::sim
