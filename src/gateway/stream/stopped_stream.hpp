// How a stream is stopped, by its caller or by an operator: its record is finished in the name of its owner, with the
// chunks that are there. From then on the owner's appends are lost.
#pragma once

#include "core/outcome.hpp"
#include "core/record.hpp"
#include "store/store.hpp"

namespace once::gateway {

// The head as it was streamed, with word that this is not all that the backend would have said.
OutcomeBytes stopped_outcome(StoredResponse head);

// Whether what stands is the part of a response that was stopped.
bool is_stopped(const Record& record);

// Makes it the op that stops the stream of the claim whose nonce it has.
void prepare_stop(Op& op, OutcomeBytes outcome);

}  // namespace once::gateway
