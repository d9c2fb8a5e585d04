// Which requests belong to a life of the resource in their path (`scope: [path, life]`), which ones end it, and the id
// of the record that marks the end: docs/design/0013-lives.md.
#pragma once

#include <string_view>

#include "core/headers.hpp"
#include "core/operation.hpp"
#include "core/policy.hpp"
#include "gateway/identity/host.hpp"

namespace once::gateway {

// Whether a request with this method ends a life when it succeeds. Its own key belongs to no life, because a retry of
// it must not end the next life.
inline bool ends_life(const Policy& policy, Method method) {
  return policy.life.remembered > Duration::zero() && policy.mode == Mode::enforce && method == Method::delete_;
}
// Whether the key of a request with this method ends with the resource's life.
inline bool is_of_life(const Policy& policy, Method method) {
  return policy.life.remembered > Duration::zero() && method != Method::delete_;
}

// The id of the marker. It depends on the host, like keys. `resource` is a normalised path, so any spelling of it gives
// the same marker.
OperationId life_marker(const OperationIds& ids, const AskedHost& host, std::string_view resource);

}  // namespace once::gateway
