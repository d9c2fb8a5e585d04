// Which requests belong to a life of the resource that their path names (`scope: [path, life]`), which end one, and the
// id of the record that marks the end: docs/design/0013-lives.md.
#pragma once

#include <string_view>

#include "core/headers.hpp"
#include "core/operation.hpp"
#include "core/policy.hpp"
#include "gateway/identity/host.hpp"

namespace once::gateway {

// Whether a request with this method ends a life when it succeeds. Its own key is of no life: a retry of it must not
// be done to the next one.
inline bool ends_life(const Policy& policy, Method method) {
  return policy.life.remembered > Duration::zero() && policy.mode == Mode::enforce && method == Method::delete_;
}
// Whether the key of a request with this method dies with the resource.
inline bool is_of_life(const Policy& policy, Method method) {
  return policy.life.remembered > Duration::zero() && method != Method::delete_;
}

// Of one host, as keys are. `resource` is a path in normal form: whichever way it was spelled when it was deleted, it
// is gone.
OperationId life_marker(const OperationIds& ids, const AskedHost& host, std::string_view resource);

}  // namespace once::gateway
