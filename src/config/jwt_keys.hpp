// Reads the keys that verify tokens from the files in the settings.
#pragma once

#include <expected>
#include <memory>
#include <string>

#include "config/config.hpp"
#include "config/load.hpp"

namespace once::config {

// Null if neither keys nor secrets are set. The error names the file and the expected format, and never contains the
// file's content.
std::expected<std::shared_ptr<const JwtVerifier>, std::string> make_verifier(const Config& config,
                                                                             ConfigErrors& warnings);

}  // namespace once::config
