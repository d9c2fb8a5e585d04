// Normalises hosts, so that all spellings of a host give the same key scope.
#pragma once

#include <string>
#include <string_view>

#include "base/layers.hpp"

namespace once::core {

// Lower case, IPv6 addresses as in RFC 5952, without a trailing dot, and without port 80 or 443. Both default ports are
// dropped because the scheme is unknown behind a proxy. The result is a view of `host` or `scratch`.
std::string_view normalise_host(std::string_view host, std::string& scratch);

}  // namespace once::core
