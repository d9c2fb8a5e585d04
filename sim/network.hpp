// The network between a gateway and a shared store: requests and answers are lost or delayed, or the store is down for
// a while. For the lanes it is a store.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "sim/history.hpp"
#include "sim/setup.hpp"
#include "sim/world.hpp"
#include "store/store.hpp"

namespace once::sim {

// Reports what the store does to the history.
class WatchedStore final : public Store {
 public:
  WatchedStore(Store& inner, History& history) : inner_(inner), history_(history) {}

  void execute(std::span<Op* const> batch) override {
    // One op at a time, so that the history has each op before it sees the evictions of later ones.
    for (Op* op : batch) {
      inner_.execute({&op, 1});
      history_.store_acted(*op);
    }
  }
  bool answer_at_once(Op& op) override { return inner_.answer_at_once(op); }
  bool failed_for_good() const override { return inner_.failed_for_good(); }
  Traits traits() const override { return inner_.traits(); }
  void notify_of_evictions(std::function<void(const Evicted&)> notify) override {
    inner_.notify_of_evictions(
        [this, notify = std::move(notify)](const Evicted& what) { history_.evicted(what, notify); });
  }
  Search* search() override { return inner_.search(); }

 private:
  Store& inner_;
  History& history_;
};

class NetworkStore final : public Store {
 public:
  NetworkStore(Store& inner, World& world, const Setup& setup) : inner_(inner), world_(world), setup_(setup) {}

  void execute(std::span<Op* const> batch) override;
  Traits traits() const override {
    Traits traits = inner_.traits();
    traits.inline_execution = false;
    return traits;
  }

  void notify_of_evictions(std::function<void(const Evicted&)> notify) override {
    inner_.notify_of_evictions(std::move(notify));
  }
  // Null if the store cannot be reached.
  Search* search() override;

  void set_down(bool down) { down_ = down; }
  void heal() { healed_ = true; }
  // The sender was killed, and the request may still arrive.
  void deliver_later(std::span<Op* const> batch, Duration after);

  // Operations of the last batch that were redirected to another server. They are answered once they arrive there.
  std::vector<Op*> take_redirected() { return std::exchange(redirected_, {}); }
  void arrive_at_last(std::span<Op* const> redirected) { inner_.execute(redirected); }

 private:
  void act(std::span<Op* const> batch);

  Store& inner_;
  World& world_;
  const Setup& setup_;
  bool down_ = false;
  bool healed_ = false;
  std::vector<Op*> redirected_;
};

}  // namespace once::sim
