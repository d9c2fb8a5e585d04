// Stops a stream, for its caller or an operator: finishes the record in the name of its owner, with the recorded
// chunks. The owner's later appends are refused as lost.
#pragma once

#include "core/outcome.hpp"
#include "core/record.hpp"
#include "store/store.hpp"

namespace once::gateway {

// The streamed head, with a field that says that the response was stopped.
OutcomeBytes stopped_outcome(StoredResponse head);

// Whether the record is the beginning of a response that was stopped.
bool is_stopped(const Record& record);

// Prepares `op`, which has the nonce of the claim, to stop the claim's stream.
void prepare_stop(Op& op, OutcomeBytes outcome);

}  // namespace once::gateway
