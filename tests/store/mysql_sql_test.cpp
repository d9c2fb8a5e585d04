// The stories that all SQL servers share, on MariaDB and Galera. In this order.
#include "tests/store/mysql_sql.hpp"

#include "tests/store/sql/chunks.hpp"
#include "tests/store/sql/functions.hpp"
#include "tests/store/sql/held_claims.hpp"
#include "tests/store/sql/races.hpp"
#include "tests/store/sql/sweeps.hpp"
#include "tests/store/sql/upgrades.hpp"
#include "tests/store/sql/workers.hpp"
