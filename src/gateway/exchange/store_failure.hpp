// Counts and logs an op that the store failed. A full store is not broken: it has its own counter and alert.
#pragma once

#include "gateway/metrics.hpp"
#include "store/store.hpp"

namespace once::gateway {

inline void count_store_failure(Metrics& metrics, const Op& op) {
  (op.fault == StoreFault::full ? metrics.store_full : metrics.store_errors).add();
}

}  // namespace once::gateway
