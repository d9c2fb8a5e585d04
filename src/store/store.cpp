#include "store/store.hpp"

#include <exception>

namespace once::store {

void execute_caught(Store& store, std::span<Op* const> batch, std::optional<std::chrono::nanoseconds> until) {
  try {
    if (until) {
      store.execute_until(*until, batch);
    } else {
      store.execute(batch);
    }
  } catch (const std::exception& failure) {
    // Ops that already have results may not have been committed.
    for (Op* const op : batch) answer_failed(*op, StoreFault::unavailable, failure.what());
  }
}

}  // namespace once::store
