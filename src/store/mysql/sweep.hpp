// Removes expired rows, a few at a time.
#pragma once

#include <cstddef>
#include <expected>

#include "store/mysql/connection.hpp"
#include "store/server/server_store.hpp"

namespace once::mysql {

// Removes up to `limit` expired records, and chunks that no record needs. Skips locked rows. After an error the
// connection cannot be used.
std::expected<Swept, SqlError> sweep(Connection& connection, std::size_t limit);

}  // namespace once::mysql
