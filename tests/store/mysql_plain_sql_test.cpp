// The stories that all SQL servers share, as far as they need no functions, on MariaDB as a server without procedures.
#include "tests/store/mysql_sql.hpp"
#include "tests/store/sql/chunks.hpp"
#include "tests/store/sql/held_claims.hpp"
#include "tests/store/sql/sweeps.hpp"
