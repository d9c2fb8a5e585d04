// What a simulation is made of, all drawn from its seed: how many of what, which policies, how often what goes wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/policy.hpp"
#include "sim/draw.hpp"
#include "store/journal/settings.hpp"

namespace once::sim {

enum class StoreKind : std::uint8_t {
  shared,   // gateways far from a store that they share: the network lies between them
  journal,  // one gateway with the journal on its own disk
};

// Chances are percent.
struct Setup {
  std::uint64_t seed = 0;
  StoreKind store = StoreKind::shared;
  unsigned gateways = 1;
  unsigned callers = 1;
  unsigned operations = 1;
  Duration length{};  // of the time in which things go wrong

  // Policies by route; each operation belongs to one. A restart may bring others for the same routes.
  std::vector<Policy> routes;
  bool policies_change = false;

  unsigned client_gives_up = 0;     // and sends again while the first may still be at work
  unsigned client_sends_other = 0;  // another body under the same key
  unsigned client_sends_twice = 0;
  unsigned backend_refuses = 0;
  unsigned backend_fails = 0;  // answers 500 and has done nothing
  unsigned backend_dies_before = 0;
  unsigned backend_dies_after = 0;
  unsigned backend_truncates = 0;
  unsigned backend_hangs = 0;
  Duration backend_takes{};

  unsigned gateway_crashes = 0;  // in the whole run
  unsigned gateway_pauses = 0;
  unsigned power_losses = 0;  // of the crashes, percent
  unsigned clock_jumps = 0;
  Duration clock_skew{};  // at most, of each gateway

  unsigned store_loses_request = 0;
  unsigned store_loses_answer = 0;
  unsigned store_acts_late = 0;
  unsigned store_outages = 0;  // in the whole run
  unsigned disk_faults = 0;    // in the whole run
  JournalSettings journal;
};

Setup draw_setup(std::uint64_t seed);
// One line a setting: what `once simulate` prints before it runs.
std::string to_text(const Setup& setup);

// The policies of the routes, drawn anew where a restart may change them.
Policy draw_policy(Draw& draw);

}  // namespace once::sim
