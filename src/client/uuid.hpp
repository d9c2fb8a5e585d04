// UUIDs (RFC 9562) as keys: version 4 is random, version 7 begins with the time.
#pragma once

#include <string>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "once/client.hpp"

namespace once::client {

// 36 characters, lower case.
std::string make_key(KeyForm form, Time now, Random& random);

}  // namespace once::client
