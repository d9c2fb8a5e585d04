// A gateway's lane in virtual time: the production queue, with a delay to the store.
#pragma once

#include <map>
#include <vector>

#include "sim/history.hpp"
#include "sim/network.hpp"
#include "sim/setup.hpp"
#include "sim/world.hpp"
#include "store/lane.hpp"
#include "store/lane_queue.hpp"

namespace once::sim {

class SimLanes final : public Lanes {
 public:
  // `network` is null for a store on the gateway's own disk. `process` identifies the requests' process; null: the
  // executor of each op. `late`: percentage of delayed answers.
  SimLanes(Store& store, NetworkStore* network, World& world, History& history, const Executor* process = nullptr,
           unsigned late = 0)
      : Lanes(store), network_(network), world_(world), history_(history), process_(process), late_(late) {}

  void heal() { late_ = 0; }

  // The process was killed. Waiting ops are answered so that every coroutine ends, without changing anything.
  void cut_off();

 protected:
  Submit submit(Pending& pending) override;

 private:
  static void answer_the_dead(Op& op);
  void depart();
  void arrive();
  void arrive_at_last();
  void answer();
  Duration way_back();
  void watch(const Op& op);

  NetworkStore* const network_;
  World& world_;
  History& history_;
  const Executor* const process_;
  unsigned late_;
  std::vector<Op*> redirected_;         // of the batch in progress
  std::map<const Op*, unsigned> asks_;  // claims of each request
  std::vector<Nonce> owners_;           // of claims requested here
  LaneQueue queue_{64};
  LaneQueue::Tried tried_ = LaneQueue::Tried::once;
  bool busy_ = false;       // a batch is in progress or about to start
  bool under_way_ = false;  // it was gathered and not answered yet
  bool arrived_ = false;
  bool cut_off_ = false;
};

}  // namespace once::sim
