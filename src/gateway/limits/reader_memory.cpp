#include "gateway/limits/reader_memory.hpp"

namespace once::gateway {

std::optional<ReaderMemory::Room> ReaderMemory::take(const TenantTag& caller, std::size_t bytes,
                                                     std::size_t max_body_memory) {
  if (shares_.take(caller, bytes, max_body_memory / 2) == Reserved::no) return std::nullopt;
  // Readers need little, and refusing one would disconnect a client in the middle: they may use half of the reserve for
  // recording too.
  if (usage_.take(HeldFor::replay, bytes, max_body_memory + max_body_memory / 8) == Reserved::no) {
    shares_.give_back(caller, bytes);
    return std::nullopt;
  }
  return Room(*this, caller, bytes);
}

void ReaderMemory::give_back(const TenantTag& caller, std::size_t bytes) {
  usage_.give_back(HeldFor::replay, bytes);
  shares_.give_back(caller, bytes);
}

}  // namespace once::gateway
