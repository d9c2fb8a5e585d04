// Responses that are recorded as they stream: which ones, and where a reader of server-sent events goes on.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "core/backend_policy.hpp"
#include "core/policy.hpp"

namespace once::core {

// The head of a response, as far as it matters for that.
struct StreamedHead {
  int status = 0;
  std::string_view content_type;
  BackendPolicy said;
};

// Whether its chunks are recorded and sent on as they come, instead of the whole at its end. Only if the route would
// record it as succeeded: a failure or a refusal is settled by the whole response.
bool is_recorded_as_it_streams(const StreamedHead& head, const RecordPolicy& policy);

// Whether this is the type of a stream: server-sent events or JSON by lines.
bool is_stream_type(std::string_view content_type);

// Where the stream goes on after the event with this id: behind the blank line that ends the last event that sets it,
// as the HTML standard reads ids. Nothing: there is no such event, or it is not complete.
std::optional<std::size_t> offset_after_event(std::string_view stream, std::string_view id);

}  // namespace once::core
