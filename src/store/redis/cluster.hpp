// Redis Cluster without I/O: the slot of a key, the owner of a slot, and the target of a redirection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "store/redis/reply.hpp"
#include "store/server/store_url.hpp"

namespace once::redis {

inline constexpr std::size_t slot_count = 16'384;
inline constexpr std::uint16_t no_owner = 0xffff;

// Hashes only the part in braces, if there is one, as Redis does.
std::uint16_t slot_of(std::string_view key);

// Whether a part of this prefix alone determines the slot of a key.
bool has_hash_tag(std::string_view prefix);

// The slot of the key of this operation.
std::uint16_t slot_of(std::string_view prefix, const OperationId& id);

// The servers, and which of them has which slot.
struct Layout {
  std::vector<StoreHost> nodes;
  std::vector<std::uint16_t> owners;  // by slot, an index of nodes or `no_owner`; empty: the first node has all slots
};

// Parses the answer to CLUSTER SLOTS. nullopt if it is invalid, or has no slots.
std::optional<Layout> read_layout(const redisReply& reply, const StoreHost& asked);

struct Redirection {
  bool ask = false;  // only this once, after ASKING; otherwise the slot has moved for good
  StoreHost to;
};

// Parses "MOVED 3999 127.0.0.1:6381" and "ASK …", as sent by `asked`.
std::optional<Redirection> read_redirection(std::string_view error, const StoreHost& asked);

}  // namespace once::redis
