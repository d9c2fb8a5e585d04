// The chunks that recovery found in the segments, for one shard. Segments are read in any order, so only at the end is
// it known which chunks count: those of the claim in the newest record of their operation, if it may have any. Chunks
// of a stream that was joined into its record are dropped as soon as its end is found, so they take no memory. The
// others take 16 bytes each, and as much again while their list grows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/record.hpp"
#include "store/journal/format.hpp"
#include "store/journal/slot_table.hpp"

namespace once::journal {

class RecoveredChunks {
 public:
  bool empty() const { return all_.empty(); }

  void add(const ChunkName& name, Place place) {
    std::vector<Claim>& claims = all_[name.id];
    auto claim = std::ranges::find_if(
        claims, [&name](const Claim& each) { return each.nonce == name.nonce && each.fence == name.fence; });
    if (claim == claims.end()) claim = claims.insert(claims.end(), {name.nonce, name.fence, {}});
    claim->chunks.push_back({place, name.number});
  }

  // Chunks before this place do not count: the operation ended there.
  void end_before(const OperationId& id, Place end) {
    const auto found = all_.find(id);
    if (found == all_.end()) return;
    for (Claim& claim : found->second) {
      std::erase_if(claim.chunks, [end](const Chunk& chunk) { return chunk.place < end; });
    }
    std::erase_if(found->second, [](const Claim& claim) { return claim.chunks.empty(); });
    if (found->second.empty()) all_.erase(found);
  }

  void for_each_id(auto&& visit) const {
    for (const auto& [id, claims] : all_) visit(id);
  }

  // Removes and returns the chunks of this claim by number, up to the first missing one. If there are two copies, the
  // later one counts.
  std::vector<Place> take(const OperationId& id, const Record& record) {
    std::vector<Chunk> chunks;
    for (Claim& claim : all_[id]) {
      if (claim.nonce == record.nonce && claim.fence == record.fence) chunks = std::move(claim.chunks);
    }
    all_.erase(id);
    std::ranges::sort(chunks, {}, [](const Chunk& chunk) { return std::tuple(chunk.number, chunk.place); });
    std::vector<Place> places;
    for (const Chunk& chunk : chunks) {
      if (chunk.number > places.size()) break;
      if (chunk.number == places.size()) {
        places.push_back(chunk.place);
      } else {
        places[chunk.number] = chunk.place;
      }
    }
    return places;
  }

 private:
  struct Chunk {
    Place place;
    std::uint32_t number = 0;
  };
  struct Claim {
    Nonce nonce;
    Fence fence{0};
    std::vector<Chunk> chunks;
  };
  std::unordered_map<OperationId, std::vector<Claim>> all_;
};

}  // namespace once::journal
