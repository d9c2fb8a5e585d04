// Requests on routes in shadow mode: they pass as if there were no Once, and nothing of them waits for the books.
#include "gateway/connection/client.hpp"
#include "gateway/passthrough/shadow.hpp"

namespace once {

Task<void> Client::answer_shadow(const RoutedPolicy& routed, RequestKey key) {
  shadow_ = std::make_shared<Shadow>(worker_, generation_, routed, io_.head, request_id_);
  shadow_->begin(std::move(key), rules(), facts());
  co_await answer_unkeyed(routed, shadow_.get());
  shadow_->end(passed_as_);
}

}  // namespace once
