// The tables and procedures that the store needs, as `once schema mysql` prints them and applies them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "store/server/settings.hpp"

namespace once::mysql {

inline constexpr std::uint64_t schema_version = 1;

// The whole schema for an empty database, as a script for the server's own client.
std::string schema_script();

// Brings the database to this version, from nothing or from an older one; what is there already stays. Safe to run
// twice and by two at once. Returns what was done, for people.
Result<std::string> apply_schema(const std::string& url, const ServerSettings& settings);

// A procedure for backends or workers, or a part of one.
struct Procedure {
  std::string_view name;
  std::string_view text;  // after CREATE PROCEDURE and the name
};
std::vector<Procedure> owner_procedures();  // once_finish, once_fail, once_renew, once_release
std::vector<Procedure> claim_procedures();  // once_claim

}  // namespace once::mysql
