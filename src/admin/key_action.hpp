// The actions of operators on a key, without HTTP, threads and audit log: the preconditions, the store operation,
// and its result.
#pragma once

#include <optional>
#include <string_view>

#include "admin/keys_json.hpp"
#include "base/executor.hpp"
#include "base/task.hpp"
#include "core/problem.hpp"
#include "store/lane.hpp"
#include "store/waiters.hpp"

namespace once::admin {

std::string_view name_of(Action action);
// "released"
std::string_view done_name(Action action);
// The state after the action, for the audit log.
std::string_view state_after(Action action, const ActionRequest& asked);

// Why the action is impossible for this key; nullopt: it is possible.
std::optional<Problem> obstacle(const KeyInfo& key, Action action, const ActionRequest& asked, Time now);

// The op has nonce and state of the key that was seen, and views of its labels.
Op op_of(const KeyInfo& key, Action action, const ActionRequest& asked);

// Executes the action, notifies local waiters, and finds out the result.
Task<Effect> carry_out(Op& op, const KeyInfo& key, Lanes& store, Waiters& waiters, Executor& home);

}  // namespace once::admin
