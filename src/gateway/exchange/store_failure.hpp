// An operation that the store did not do. One that is full is not broken: it has a counter, and an alert, of its own.
#pragma once

#include "gateway/metrics.hpp"
#include "store/store.hpp"

namespace once::gateway {

inline void count_store_failure(Metrics& metrics, const Op& op) {
  (op.fault == StoreFault::full ? metrics.store_full : metrics.store_errors).add();
}

}  // namespace once::gateway
