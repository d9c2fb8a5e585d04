// The last steps before a configuration can be served: check relations between settings, fill in derived values, and
// read or generate the secret.
#pragma once

#include <expected>

#include "base/random.hpp"
#include "config/config.hpp"
#include "config/load.hpp"
#include "store/catalog/store_type.hpp"

namespace once::config {

struct Checked {
  ConfigErrors errors;
  ConfigErrors warnings;
};

// Fills in the route for everything and the upstreams of routes. Touches no file.
Checked check(Config& config);
// Reads every file that a setting names, but for those of check_secrets(), and checks the URL of the store. Whether
// logs and folders can be written is found out without making any.
Checked read_files(Config& config);
// Where the journal is, of a store that is one.
std::string journal_folder(const Config& config);
// What the store is opened with.
StoreSettings store_settings(const Config& config);

// Whether the secret and the admin token that would be used can be: what prepare() refuses is an error here. A secret
// that would be made is not made.
Checked check_secrets(Config& config, const Environ& environ);

// Finds the folder for large requests, and whether it can be written.
Checked check_spool(Config& config, const Environ& environ);

// These four, as `once check` does.
Checked check_all(Config& config, const Environ& environ);

// The mistakes that were found as it was read, and those that the checks find in the rest of it; in the order of the
// file.
ConfigErrors all_mistakes(Loaded loaded, const Environ& environ);

// All of that, then the secret is found or made. The value is the warnings.
std::expected<ConfigErrors, ConfigErrors> prepare(Config& config, const Environ& environ, Random& random);

}  // namespace once::config
