// The last steps from settings to something that can be served: what belongs together is checked, what follows from
// the rest is filled in, and the secret is found or made.
#pragma once

#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/random.hpp"
#include "config/config.hpp"
#include "config/load.hpp"

namespace once {

struct Checked {
  ConfigErrors errors;
  ConfigErrors warnings;
};

// Fills in the route for everything and the upstreams of routes. Touches no file.
Checked check(Config& config);
// Reads every file that a setting names, but for those of check_secrets(). `once check` is these three.
Checked read_files(Config& config);

// The value of an environment variable, if it is set.
using Environ = std::function<std::optional<std::string>(std::string_view name)>;

// Whether the secret and the admin token that would be used can be: what finish() refuses is an error here. A secret
// that would be made is not made.
Checked check_secrets(const Config& config, const Environ& environ);

// All of that, then the secret. The value is the warnings.
std::expected<ConfigErrors, ConfigErrors> finish(Config& config, const Environ& environ, Random& random);

}  // namespace once
