// The stories that all SQL servers share, on MariaDB and Galera. The upgrades come first: they wait for locks of
// tables, which a MariaDB whose clock was moved never gives up on, and other stories move it.
// clang-format off
#include "tests/store/sql/upgrades.hpp"
// clang-format on

#include "tests/store/mysql_sql.hpp"

#include "tests/store/sql/chunks.hpp"
#include "tests/store/sql/functions.hpp"
#include "tests/store/sql/held_claims.hpp"
#include "tests/store/sql/races.hpp"
#include "tests/store/sql/sweeps.hpp"
#include "tests/store/sql/workers.hpp"
