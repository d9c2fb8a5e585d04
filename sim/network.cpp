#include "sim/network.hpp"

namespace once::sim {

namespace {

using namespace std::chrono_literals;

void all_failed(std::span<Op* const> batch, std::string_view why) {
  for (Op* op : batch) answer_failed(*op, StoreFault::unavailable, why);
}

}  // namespace

void NetworkStore::execute(std::span<Op* const> batch) {
  Draw& draw = world_.draw;
  if (down_) return all_failed(batch, "the store is down");
  if (healed_) return act(batch);
  if (draw.percent(setup_.store_loses_request)) return all_failed(batch, "the request was lost");
  if (draw.percent(setup_.store_acts_late)) {
    deliver_later(batch, draw.between(10ms, 20s));
    return all_failed(batch, "no answer in time");
  }
  act(batch);
  if (draw.percent(setup_.store_loses_answer)) all_failed(batch, "the answer was lost");
}

void NetworkStore::deliver_later(std::span<Op* const> batch, Duration after) {
  auto copies = std::make_shared<std::vector<Op>>();
  for (const Op* op : batch) copies->push_back(*op);
  world_.after(after, [this, copies] {
    std::vector<Op*> pointers;
    for (Op& op : *copies) pointers.push_back(&op);
    world_.note("store: a request arrives late");
    act(pointers);
  });
}

void NetworkStore::act(std::span<Op* const> batch) {
  inner_.execute(batch);
}

}  // namespace once::sim
