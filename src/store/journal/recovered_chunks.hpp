// Chunks that recovery has met in the segments, of one shard. Segments are read in any order, so which of them count is
// known at the end only: those of the claim that the newest record of their operation is about, if it is still open.
// Most streams ended long ago; their chunks are dropped as soon as the end is met, so that only a few are in memory.
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
    all_[name.id].push_back({name.nonce, name.fence, name.number, place});
  }

  // Whatever was appended before this place does not count: the operation ended there.
  void end_before(const OperationId& id, Place end) {
    const auto found = all_.find(id);
    if (found == all_.end()) return;
    std::erase_if(found->second, [end](const Chunk& chunk) { return chunk.place < end; });
    if (found->second.empty()) all_.erase(found);
  }

  void for_each_id(auto&& visit) const {
    for (const auto& [id, chunks] : all_) visit(id);
  }

  // The chunks of this claim by number, up to the first one that is missing. Of two copies, the later one counts.
  std::vector<Place> of(const OperationId& id, const Record& record) {
    std::vector<Chunk>& chunks = all_[id];
    std::erase_if(chunks,
                  [&record](const Chunk& chunk) { return chunk.nonce != record.nonce || chunk.fence != record.fence; });
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
    Nonce nonce;
    Fence fence{0};
    std::uint32_t number = 0;
    Place place;
  };
  std::unordered_map<OperationId, std::vector<Chunk>> all_;
};

}  // namespace once::journal
