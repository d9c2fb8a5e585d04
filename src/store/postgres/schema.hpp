// The tables and functions of the store, as printed and applied by `once schema postgres`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "store/server/schema_version.hpp"
#include "store/server/settings.hpp"

namespace once::postgres {

// Programs for revision 5 can use it.
inline constexpr std::uint64_t schema_revision = 6;

inline constexpr std::string_view how_to_apply = "run `once schema postgres --apply URL` with the store's URL";

// Revision and oldest program of the database, in one row; null if it has none. A schema of revision 1, which is
// refused, has no column for the revision.
inline constexpr std::string_view version_sql =
    "SELECT max(coalesce((to_jsonb(s)->>'revision')::integer, 1))::text, max(s.version)::text FROM once_schema AS s";
class Rows;
SchemaVersion version_of(const Rows& rows);

// The whole schema for an empty database, as a script for the server's own client.
std::string schema_script();

// Creates the schema or upgrades that of the revision before, and keeps existing data. Safe to repeat, to run
// concurrently, and to run while gateways are serving, which it does not block. Returns a text that says what was done.
Result<std::string> apply_schema(const std::string& url, const ServerSettings& settings);

}  // namespace once::postgres
