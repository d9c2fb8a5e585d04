// The function for scheduled jobs that remove expired rows, in addition to the gateways' own sweeps.
#include <fmt/format.h>

#include "store/postgres/schema_sql.hpp"
#include "store/postgres/statements.hpp"

namespace once::postgres {

namespace {

constexpr std::string_view sweep_function = R"sql(
CREATE OR REPLACE FUNCTION once_sweep(max_rows integer DEFAULT 1000) RETURNS bigint
LANGUAGE sql STRICT SECURITY DEFINER SET search_path FROM CURRENT AS $body${}
SELECT greatest((SELECT count(*) FROM due), (SELECT count(*) FROM dropped))
$body$;
COMMENT ON FUNCTION once_sweep(integer) IS
  'Removes up to max_rows expired operations, or makes tombstones of those that are to be remembered, and up to max_rows chunks of responses that have ended. Returns how many operations or chunks that were, whichever is more. Fewer than max_rows: nothing is left for now. Rows that somebody holds are left for the next call. Commit it at once.';
)sql";

}  // namespace

std::string sweep_function_sql() {
  return fmt::format(sweep_function, sweep_steps_sql());
}

}  // namespace once::postgres
