// The tables and procedures of the store, as printed and applied by `once schema mysql`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "store/mysql/target.hpp"
#include "store/server/schema_version.hpp"
#include "store/server/settings.hpp"

namespace once::mysql {

// Programs for the revision before can use it, too.
inline constexpr std::uint64_t schema_revision = 5;
inline constexpr std::string_view how_to_apply = "run `once schema mysql --apply URL` with the store's URL";

class RowView;
// Parses the row of once_schema. One of revision 1, which is refused, has no column for the revision.
SchemaVersion version_of(const RowView& row);
// The revision of the procedures; 0: there are none.
std::uint64_t procedures_of(const RowView& row);

// The whole schema for an empty database, as a script for the server's own client.
std::string schema_script(Procedures procedures);

// Creates the schema or upgrades that of the revision before, and keeps existing data. Safe to repeat, to run
// concurrently, and to run while gateways are serving. Returns a text that says what was done. With procedures=off in
// the URL, procedures are neither created nor changed.
Result<std::string> apply_schema(const std::string& url, const ServerSettings& settings);

// A procedure for backends or workers, or a helper of one.
struct Procedure {
  std::string_view name;
  std::string_view text;  // the part after CREATE PROCEDURE and the name
};
std::vector<Procedure> owner_procedures();  // once_finish, once_fail, once_renew, once_release
std::vector<Procedure> claim_procedures();  // once_claim
std::vector<Procedure> sweep_procedures();  // once_sweep

}  // namespace once::mysql
