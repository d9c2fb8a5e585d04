// Operators at one gateway, who use the code behind the admin interface (admin/key_action.hpp), without its threads and
// the audit log. A lookup takes no time.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "admin/key_action.hpp"
#include "sim/history.hpp"
#include "sim/world.hpp"

namespace once::sim {

// An operator's action on a key.
struct OperatorAction {
  Action action = Action::forget;
  State state = State::succeeded;  // resolve
  bool has_response = true;        // resolve as succeeded
};
OperatorAction draw_action(Draw& draw);

class Operators {
 public:
  struct Ports {
    World& world;
    History& history;
    Store& store;
    Lanes& lanes;
    Waiters& waiters;
    Executor& home;
  };
  explicit Operators(const Ports& ports) : ports_(ports) {}

  // Every key; none if the store cannot be reached.
  std::vector<KeyInfo> list();
  // `seen` is the key as it was shown, some time ago and perhaps at another gateway.
  void act(const KeyInfo& seen, const OperatorAction& action);
  // The process was killed: operators get no more answers.
  void cut_off() { cut_off_ = true; }

 private:
  struct Visit {
    unsigned decision = 0;
    Action action = Action::forget;
    std::string request;
    KeyInfo key{};  // as it was when the request came; the op has views of it, even if it arrives late
  };

  Task<void> run(Visit& visit);
  void note(const Visit& visit, std::string_view what);

  Ports ports_;
  std::list<Visit> visits_;
  bool cut_off_ = false;
};

}  // namespace once::sim
