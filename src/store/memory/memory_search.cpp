// The memory store's search for operators. A scan visits the shards one after the other, and each slab in the order of
// its nodes, which never move: a record that exists all the time is returned exactly once.
#include "store/memory/memory_store.hpp"
#include "store/memory/shard.hpp"

namespace once::memory {

namespace {

constexpr std::size_t nodes_per_lock = 256;
constexpr std::size_t nodes_per_page = 16'384;

}  // namespace

std::size_t MemoryShard::visit(std::size_t at, std::size_t most, Time now, const std::function<bool(KeyInfo&&)>& take) {
  const std::scoped_lock lock(mutex_);
  for (; at < table_.size() && most > 0; ++at, --most) {
    const Node& node = table_.at(at);
    // An unused node: it is not in the table.
    if (node.record.expires_at == Time::max() && table_.find(node.id) != &node) continue;
    if (forgotten(node.record, now)) continue;
    KeyInfo info = info_of(node.id, node.record, now);
    const Labels::Pair labels = labels_.of(node.label);
    if (!labels.tenant.empty()) info.tenant = labels.tenant;
    if (!labels.route.empty() || node.details != nullptr) info.route = labels.route;
    if (node.details != nullptr) info.route->append("\t").append(node.details.get());
    if (!take(std::move(info))) return at + 1;
  }
  return at < table_.size() ? at : npos;
}

Result<KeyPage> MemoryStore::scan(const KeyFilter& filter, std::string_view cursor, std::size_t limit) {
  const auto from = read_cursor(cursor, 2);
  if (!from) return bad_cursor();
  KeyPage page{.keys = {}, .next = {}, .now = clock_.now()};
  std::size_t shard = (*from)[0];
  std::size_t at = (*from)[1];
  const auto take = [&](KeyInfo&& info) {
    if (fits(info, filter)) page.keys.push_back(std::move(info));
    return page.keys.size() < limit;
  };
  std::size_t looked = 0;
  while (shard < shards_.size() && page.keys.size() < limit && looked < nodes_per_page) {
    at = shards_[shard]->visit(at, nodes_per_lock, page.now, take);
    looked += nodes_per_lock;
    if (at != MemoryShard::npos) continue;
    ++shard;
    at = 0;
  }
  if (shard < shards_.size()) page.next = cursor_of({shard, at});
  return page;
}

Result<KeyPage> MemoryStore::find(const IdPrefix& prefix) {
  OperationId id;
  std::copy_n(prefix.bytes.begin(), prefix.bytes.size(), id.bytes.begin());
  KeyPage page{.keys = {}, .next = {}, .now = clock_.now()};
  const auto take = [&](KeyInfo&& info) {
    if (begins_with(info.id, prefix)) page.keys.push_back(std::move(info));
    return page.keys.size() < 2;
  };
  // The shard is determined by the first eight bytes.
  MemoryShard& shard = shard_of(id);
  for (std::size_t at = 0; at != MemoryShard::npos && page.keys.size() < 2;) {
    at = shard.visit(at, nodes_per_lock, page.now, take);
  }
  return page;
}

Result<KeyCounts> MemoryStore::count(std::string_view cursor) {
  const auto from = read_cursor(cursor, 2);
  if (!from) return bad_cursor();
  const Time now = clock_.now();
  KeyCounts counts;
  std::size_t shard = (*from)[0];
  std::size_t at = (*from)[1];
  const auto take = [&](const KeyInfo& info) {
    counts.add(info, now);
    return true;
  };
  for (std::size_t looked = 0; shard < shards_.size() && looked < nodes_per_page; looked += nodes_per_lock) {
    at = shards_[shard]->visit(at, nodes_per_lock, now, take);
    if (at != MemoryShard::npos) continue;
    ++shard;
    at = 0;
  }
  if (shard < shards_.size()) counts.next = cursor_of({shard, at});
  return counts;
}

}  // namespace once::memory
