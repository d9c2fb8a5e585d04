// RocksDB as a store of outcomes would use it: one look-up and one write batch for all claims of a batch, one write
// batch for all outcomes. Where it does less than a store has to, that is to its advantage: an outcome is written
// without asking whose claim it is, and nothing ever expires.
#include "bench/rocksdb_peer.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/version.h>
#include <rocksdb/write_batch.h>

#include "bench/measure.hpp"

namespace once::bench {

namespace {

// What the journal keeps of a record beside id and outcome.
constexpr std::size_t record_size = 80;

rocksdb::Options tuned() {
  rocksdb::BlockBasedTableOptions table;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.block_cache = rocksdb::NewLRUCache(std::size_t{64} << 20U);
  rocksdb::Options options;
  options.create_if_missing = true;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.write_buffer_size = std::size_t{64} << 20U;
  // New keys are not in the memtable: a filter says so sooner than the skip list.
  options.memtable_prefix_bloom_size_ratio = 0.1;
  options.memtable_whole_key_filtering = true;
  options.allow_concurrent_memtable_write = false;  // one writer
  options.compression = rocksdb::kNoCompression;    // as the journal
  options.max_background_jobs = 2;
  return options;
}

rocksdb::Slice slice(std::string_view bytes) {
  return {bytes.data(), bytes.size()};
}

void check(const rocksdb::Status& status) {
  if (!status.ok()) give_up(status.ToString());
}

class RocksdbPeer final : public Peer {
 public:
  RocksdbPeer(const std::string& folder, Sync sync) {
    rocksdb::DB* opened = nullptr;
    check(rocksdb::DB::Open(tuned(), folder, &opened));
    db_.reset(opened);
    write_options_.sync = sync == Sync::always;
  }

  void claim(std::span<const Request> batch) override {
    look_up(batch);
    for (const rocksdb::Status& status : statuses_) {
      if (!status.IsNotFound()) give_up("a new key was there already");
    }
    write(batch, What::claims);
  }

  void finish(std::span<const Request> batch) override { write(batch, What::outcomes); }

  void replay(std::span<const Request> batch) override {
    look_up(batch);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      check(statuses_[i]);
      if (values_[i].size() != record_size + outcome_size) give_up("no replay");
    }
  }

 private:
  enum class What : std::uint8_t { claims, outcomes };

  void look_up(std::span<const Request> batch) {
    keys_.clear();
    for (const Request& request : batch) keys_.push_back(slice(request.id.view()));
    values_.resize(batch.size());
    for (rocksdb::PinnableSlice& value : values_) value.Reset();
    statuses_.resize(batch.size());
    db_->MultiGet({}, db_->DefaultColumnFamily(), keys_.size(), keys_.data(), values_.data(), statuses_.data());
  }

  void write(std::span<const Request> batch, What what) {
    rocksdb::WriteBatch changes;
    for (const Request& request : batch) {
      value_.assign(request.nonce.view());
      value_.resize(record_size);
      if (what == What::outcomes) value_.append(*request.outcome);
      check(changes.Put(slice(request.id.view()), value_));
    }
    check(db_->Write(write_options_, &changes));
  }

  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::WriteOptions write_options_;
  std::vector<rocksdb::Slice> keys_;
  std::vector<rocksdb::PinnableSlice> values_;
  std::vector<rocksdb::Status> statuses_;
  std::string value_;
};

}  // namespace

std::unique_ptr<Peer> open_rocksdb(const std::string& folder, Sync sync) {
  return std::make_unique<RocksdbPeer>(folder, sync);
}

std::string rocksdb_version() {
  return fmt::format("{}.{}.{}", ROCKSDB_MAJOR, ROCKSDB_MINOR, ROCKSDB_PATCH);
}

}  // namespace once::bench
