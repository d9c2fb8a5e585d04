#include "sim/branches.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace once::sim {

namespace {

// In the order of their names.
constexpr std::array<Unreachable, 38> listed{
    Unreachable{"backend: nothing could be written to an idle connection", WhyNot::rare,
                "the server must close between the look at the connection and the write"},
    Unreachable{"claim anew: another owner was faster", WhyNot::rare,
                "a store that lost its data, and another owner between two steps"},
    Unreachable{"claim anew: no answer", WhyNot::rare, "a store that lost its data and then does not answer"},
    Unreachable{"claim: granted for another request than the one at work", WhyNot::rare,
                "a mismatch that arrives between two steps of a claim"},
    Unreachable{"cleaner: a body expires while it is carried", WhyNot::rare,
                "a body in chunks that expires in the oldest segment"},
    Unreachable{"cleaner: drops chunks that have expired", WhyNot::rare,
                "a record that is remembered for longer than its chunks, in the oldest segment"},
    Unreachable{"connection: a request comes back to its gateway", WhyNot::not_modelled, "no backend is a gateway"},
    Unreachable{"connection: half an interim response", WhyNot::rare,
                "a client that stops reading in the middle of an interim response"},
    Unreachable{"identity: Connection names the key", WhyNot::not_modelled,
                "clients send no Connection header that names a field"},
    Unreachable{"identity: an invalid key", WhyNot::not_modelled, "clients send valid keys"},
    Unreachable{"journal: an owner is back after a restart", WhyNot::not_modelled,
                "owners that are the process end with the journal"},
    Unreachable{"journal: chunk after a gap", WhyNot::rare, "a chunk must be lost by a repair"},
    Unreachable{"journal: new key refused", WhyNot::rare,
                "the drawn limits of the disk are larger than what one run writes"},
    Unreachable{"journal: no room for a chunk", WhyNot::rare,
                "the drawn limits of the disk are larger than what one run writes"},
    Unreachable{"journal: no room for the body", WhyNot::rare,
                "the drawn limits of the disk are larger than what one run writes"},
    Unreachable{"journal: sync before a segment is dropped", WhyNot::not_modelled, "the journal syncs every write"},
    Unreachable{"lease: clock set back since the claim", WhyNot::rare,
                "a clock that jumps between a claim and its answer"},
    Unreachable{"limits: clients that left still execute", WhyNot::rare,
                "the limit of connections is larger than the number of clients that leave"},
    Unreachable{"limits: two outcomes under one claim", WhyNot::rare,
                "an operator who resolves an outcome that could not be recorded while its reply is written"},
    Unreachable{"memory: chunk after a gap", WhyNot::rare, "the memory store loses no chunks"},
    Unreachable{"memory: evicts the recorded part of an unknown outcome", WhyNot::rare,
                "a store that is full of unknown outcomes of streams"},
    Unreachable{"memory: new key refused", WhyNot::rare,
                "a holder who has most of the store in what cannot be evicted"},
    Unreachable{"memory: no room for what an operator resolved", WhyNot::rare,
                "an operator's response is larger than half of the store"},
    Unreachable{"pass: sent to another server", WhyNot::not_modelled, "the setting retry_safe is off"},
    Unreachable{"reader: another response was recorded", WhyNot::rare,
                "an operator who resolves a stream that another gateway reads"},
    Unreachable{"recorder: waits for its readers", WhyNot::rare,
                "a relayed stream that is larger than its window and is read slowly"},
    Unreachable{"recovery: a body has lost a part", WhyNot::not_modelled, "a journal that is repaired"},
    Unreachable{"recovery: a leased claim has chunks", WhyNot::not_modelled,
                "holders of leased claims record no streams"},
    Unreachable{"recovery: on a full disk", WhyNot::rare,
                "the drawn limits of the disk are larger than what one run writes"},
    Unreachable{"request: a malformed body", WhyNot::rare, "malformed requests go to routes without keys"},
    Unreachable{"request: not read when the gateway stops", WhyNot::rare, "gateways drain when all clients have left"},
    Unreachable{"request: too large", WhyNot::rare, "no keyed request is larger than max_large_request"},
    Unreachable{"resume: overtaken while the event is searched", WhyNot::rare,
                "a stream that is longer than one read and overtaken during it"},
    Unreachable{"stop: the record changed three times", WhyNot::rare, "three changes of a record within one stop"},
    Unreachable{"stream: readers continue in the record", WhyNot::not_modelled,
                "backends that stream do not commit an outcome"},
    Unreachable{"stream: readers do not fit the record", WhyNot::rare,
                "an operator who resolves a stream that is still read"},
    Unreachable{"tunnel: one direction is silent", WhyNot::rare,
                "tunnels end before a direction has been silent for long"},
    Unreachable{"upload: outlives its request", WhyNot::rare,
                "a streamed response that is cut off while the request is still sent"},
};

constexpr std::size_t most_shown = 5;

const Unreachable* find(std::span<const Unreachable> all, std::string_view branch) {
  const auto found = std::ranges::find(all, branch, &Unreachable::branch);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

std::span<const Unreachable> unreachable_branches() {
  return listed;
}

BranchReport judge_branches(std::vector<Branches::Count> counts, std::span<const Unreachable> unreachable) {
  BranchReport report{.all = counts.size(), .counts = std::move(counts)};
  for (const Branches::Count& each : report.counts) {
    const Unreachable* const reason = find(unreachable, each.name);
    if (each.taken > 0) ++report.reached;
    if (each.taken == 0 && reason == nullptr) report.missing.push_back(each.name);
    const bool impossible = reason != nullptr && reason->why == WhyNot::not_modelled;
    if (each.taken > 0 && impossible) report.wrong.push_back(each.name);
  }
  for (const Unreachable& each : unreachable) {
    const bool exists = std::ranges::find(report.counts, each.branch, &Branches::Count::name) != report.counts.end();
    if (!exists) report.wrong.push_back(each.branch);
  }
  return report;
}

std::string summary_of(const BranchReport& report) {
  std::string text = fmt::format("branches: {} of {} reached", report.reached, report.all);
  for (std::size_t i = 0; i < std::min(report.missing.size(), most_shown); ++i) {
    text += fmt::format("{}{}", i == 0 ? "; not: " : ", ", report.missing[i]);
  }
  if (report.missing.size() > most_shown) text += fmt::format(" and {} more", report.missing.size() - most_shown);
  return text + "\n";
}

std::string details_of(const BranchReport& report, std::span<const Unreachable> unreachable) {
  std::string text;
  for (const Branches::Count& each : report.counts) {
    text += fmt::format("{:>9} {}", each.taken, each.name);
    const Unreachable* const reason = find(unreachable, each.name);
    if (reason != nullptr) text += fmt::format(" (listed: {})", reason->reason);
    if (reason == nullptr && each.taken == 0) text += " NOT REACHED";
    text += "\n";
  }
  for (const std::string_view each : report.wrong) text += fmt::format("{}: wrongly listed\n", each);
  return text;
}

}  // namespace once::sim
