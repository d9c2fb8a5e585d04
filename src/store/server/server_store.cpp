#include "store/server/server_store.hpp"

namespace once::store {

StoreReport ServerStore::report() const {
  const ServerStats seen = stats();
  StoreReport out;
  out.gauge("once_store_connections", "Connections to the store's server.", seen.connections);
  out.counter("once_store_connects_total", "Connections opened to the store's server.", seen.connects);
  out.counter("once_store_connect_failures_total", "Failed connections to the store's server.", seen.connect_failures);
  out.counter("once_store_indeterminate_total", "Operations without an answer.", seen.indeterminate);
  out.counter("once_store_retried_total", "Operations repeated after a conflict or a redirection.", seen.retried);
  out.counter("once_store_swept_total", "Expired records removed by this gateway.", seen.swept);
  out.counter("once_store_told_total", "Notifications from the server about ended operations.", seen.notified);
  return out;
}

}  // namespace once::store
