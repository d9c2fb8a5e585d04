// In place of rocksdb_peer.cpp where RocksDB is not installed.
#include "bench/rocksdb_peer.hpp"

namespace once::bench {

std::unique_ptr<Peer> open_rocksdb(const std::string& /*folder*/, Sync /*sync*/) {
  return nullptr;
}

std::string rocksdb_version() {
  return "";
}

}  // namespace once::bench
