#include "sim/network.hpp"

#include <deque>
#include <string>

namespace once::sim {

namespace {

using namespace std::chrono_literals;

void all_failed(std::span<Op* const> batch, std::string_view why, StoreFault fault = StoreFault::unavailable) {
  for (Op* op : batch) answer_failed(*op, fault, why);
}

}  // namespace

void NetworkStore::execute(std::span<Op* const> batch) {
  Draw& draw = world_.draw;
  const bool refuses = setup_.store_refuses > 0;
  if (down_) {
    return all_failed(batch, "the store is down",
                      refuses && draw.one_in(2) ? StoreFault::refused : StoreFault::unavailable);
  }
  if (healed_) return act(batch);
  if (refuses && draw.percent(setup_.store_refuses)) {
    return all_failed(batch, "the connection was refused", StoreFault::refused);
  }
  if (draw.percent(setup_.store_loses_request)) return all_failed(batch, "the request was lost");
  if (draw.percent(setup_.store_acts_late)) {
    deliver_later(batch, draw.between(10ms, 20s));
    return all_failed(batch, "no answer in time");
  }
  if (draw.percent(setup_.store_loses_answer)) {
    inner_.execute(batch);
    return all_failed(batch, "the answer was lost");
  }
  act(batch);
}

Search* NetworkStore::search() {
  const unsigned lost = setup_.store_loses_request + setup_.store_loses_answer + setup_.store_refuses;
  const bool in_reach = !down_ && (healed_ || !world_.draw.percent(lost));
  return in_reach ? inner_.search() : nullptr;
}

void NetworkStore::deliver_later(std::span<Op* const> batch, Duration after) {
  // A batch in flight outlives the request that its labels are views of.
  struct Late {
    explicit Late(const Op& sent) : tenant(sent.tenant), route(sent.route), op(sent) {
      op.tenant = tenant;
      op.route = route;
    }
    Late(const Late&) = delete;
    Late& operator=(const Late&) = delete;
    std::string tenant;
    std::string route;
    Op op;
  };
  auto copies = std::make_shared<std::deque<Late>>();
  for (const Op* op : batch) copies->emplace_back(*op);
  world_.after(after, [this, copies] {
    std::vector<Op*> pointers;
    for (Late& late : *copies) pointers.push_back(&late.op);
    world_.note("store: a request arrives late");
    inner_.execute(pointers);
  });
}

void NetworkStore::act(std::span<Op* const> batch) {
  if (healed_ || setup_.redirected == 0) return inner_.execute(batch);
  std::vector<Op*> here;
  for (Op* op : batch) {
    if (!world_.draw.percent(setup_.redirected)) {
      here.push_back(op);
      continue;
    }
    op->status = OpStatus::done;  // not failed, so that it is not resent meanwhile
    redirected_.push_back(op);
  }
  inner_.execute(here);
}

}  // namespace once::sim
