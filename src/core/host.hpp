// Normalises hosts for the scope of keys: all spellings of a host are one host.
#pragma once

#include <string>
#include <string_view>

#include "base/layers.hpp"

namespace once::core {

// In lower case, an IPv6 address as RFC 5952 writes it, without a dot at its end and without the port if that is 80 or
// 443, the defaults of http and https: a host is one whatever scheme it is asked with, and behind a proxy the scheme is
// not known. The result is `host` itself or lies in `scratch`, or is a part of one of them.
std::string_view normalise_host(std::string_view host, std::string& scratch);

}  // namespace once::core
