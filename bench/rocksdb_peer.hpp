// The same work in RocksDB.
#pragma once

#include <memory>
#include <string>

#include "bench/requests.hpp"
#include "store/journal/settings.hpp"

namespace once::bench {

// Null: built without RocksDB.
std::unique_ptr<Peer> open_rocksdb(const std::string& folder, Sync sync);
std::string rocksdb_version();

}  // namespace once::bench
