// The tables and functions that the store needs, as `once schema postgres` prints them and applies them.
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "store/server/settings.hpp"

namespace once::postgres {

inline constexpr int schema_version = 1;

// The whole schema for an empty database, as a script for the server's own client.
std::string schema_script();

// Brings the database to this version, from nothing or from an older one; what is there already stays. Safe to run
// twice and by two at once. Returns what was done, for people.
Result<std::string> apply_schema(const std::string& url, const ServerSettings& settings);

}  // namespace once::postgres
