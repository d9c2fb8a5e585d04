// Removes rows that have expired, a few at a time.
#pragma once

#include <cstddef>
#include <expected>

#include "store/mysql/connection.hpp"
#include "store/server/server_store.hpp"

namespace once::mysql {

// Rows that somebody holds are left for the next time. After an error the connection is of no use.
std::expected<Swept, SqlError> sweep(Connection& connection, std::size_t limit);

}  // namespace once::mysql
