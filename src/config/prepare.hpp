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

// Adds the catch-all route, and fills in the upstreams of routes. Opens no file.
Checked check(Config& config);
// Reads every file that a setting names, except those of check_secrets(), and checks the URL of the store. Checks
// whether logs and folders can be written, without creating any.
Checked read_files(Config& config);
// The folder of a journal store; empty for another store.
std::string journal_folder(const Config& config);
// The settings to open the store with.
StoreSettings store_settings(const Config& config);

// Reports an error if prepare() would refuse the secret or the admin token. Does not create a secret.
Checked check_secrets(Config& config, const Environ& environ);

// Determines the folder for large requests, and whether it can be written.
Checked check_spool(Config& config, const Environ& environ);

// Runs the four checks above, as `once check` does.
Checked check_all(Config& config, const Environ& environ);

// The mistakes found while reading, and those that the checks find in the remaining settings, in the order of the
// file.
ConfigErrors all_mistakes(Loaded loaded, const Environ& environ);

// Runs all checks, then reads or creates the secret. The value contains the warnings.
std::expected<ConfigErrors, ConfigErrors> prepare(Config& config, const Environ& environ, Random& random);

}  // namespace once::config
