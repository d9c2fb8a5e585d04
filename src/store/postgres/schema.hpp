// The tables and functions that the store needs, as `once schema postgres` prints them and applies them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "store/server/schema_version.hpp"
#include "store/server/settings.hpp"

namespace once::postgres {

// In a database that was upgraded, programs for older revisions can be used until apply_schema() retires them.
inline constexpr SchemaVersion schema_version = {.revision = 3, .oldest_program = 1};
// From this oldest program on, leases are renewed beside the rows, where older programs would not look.
inline constexpr std::uint64_t leases_aside_from = 3;

inline constexpr std::string_view how_to_apply = "run `once schema postgres --apply URL` with the store's URL";

// Revision and oldest program of the database, in one row; null if it has none. A schema of revision 1 has no column
// for the revision.
inline constexpr std::string_view version_sql =
    "SELECT max(coalesce((to_jsonb(s)->>'revision')::integer, 1))::text, max(s.version)::text FROM once_schema AS s";
class Rows;
SchemaVersion version_of(const Rows& rows);

// The whole schema for an empty database, as a script for the server's own client.
std::string schema_script();

// Brings the database to this version, from nothing or from an older one; what is there already stays. Safe to run
// twice and by two at once, and beside gateways at work: nothing that they do waits for it. Returns what was done, for
// people.
enum class OlderPrograms : std::uint8_t {
  stay,     // they can use the schema as before
  retired,  // none of them runs any more, and none will: what they could not use is used
};
Result<std::string> apply_schema(const std::string& url, const ServerSettings& settings,
                                 OlderPrograms older = OlderPrograms::stay);

}  // namespace once::postgres
