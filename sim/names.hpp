// Names of store decisions, for traces.
#pragma once

#include <string_view>

#include "store/store.hpp"

namespace once::sim {

inline std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::execute: return "execute";
    case Verdict::replay: return "replay";
    case Verdict::not_kept: return "not kept";
    case Verdict::mismatch: return "mismatch";
    case Verdict::in_flight: return "in flight";
    case Verdict::too_early: return "too early";
    case Verdict::held: return "held";
    case Verdict::gone: return "gone";
  }
  return "";
}

inline std::string_view name_of(Verb verb) {
  switch (verb) {
    case Verb::claim: return "claim";
    case Verb::renew: return "renew";
    case Verb::finish: return "finish";
    case Verb::release: return "release";
    case Verb::forget: return "forget";
    case Verb::resolve: return "resolve";
    case Verb::lookup: return "lookup";
    case Verb::append: return "append";
    case Verb::read: return "read";
  }
  return "";
}

inline std::string_view text_of(State state) {
  switch (state) {
    case State::started: return "started";
    case State::succeeded: return "succeeded";
    case State::failed: return "failed";
    case State::unknown: return "unknown";
    case State::tombstone: return "tombstone";
  }
  return "";
}

}  // namespace once::sim
