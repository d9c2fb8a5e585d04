#include "sim/operators.hpp"

#include <fmt/format.h>

#include "base/assert.hpp"
#include "store/search.hpp"

namespace once::sim {

namespace {

constexpr std::size_t page_size = 100;
// The usual time of an audit write; sometimes it takes so long that the key is claimed again meanwhile.
constexpr Duration usual_audit = std::chrono::seconds(6);
constexpr Duration longest_audit = std::chrono::seconds(40);

// The request that `once keys` would send.
std::string request_of(const KeyInfo& seen, const OperatorAction& action, unsigned decision) {
  std::string text = fmt::format(R"({{"version":"{}","by":"operator {}","reason":"drawn")", version_of(seen), decision);
  if (action.action == Action::resolve) {
    const bool succeeded = action.state == State::succeeded;
    text += fmt::format(R"(,"state":"{}")", succeeded ? "succeeded" : "failed");
    if (succeeded && action.has_response) {
      text += fmt::format(R"(,"response":{{"status":201,"body":"{}"}})", resolved_body(decision));
    }
  }
  return text + "}";
}

std::string_view name_of(Effect effect) {
  switch (effect) {
    case Effect::done: return "done";
    case Effect::none: return "not done";
    case Effect::unknown: return "perhaps done";
  }
  return "";
}

}  // namespace

OperatorAction draw_action(Draw& draw) {
  return {.action = draw.one_of({Action::release, Action::resolve, Action::resolve, Action::forget}),
          .state = draw.one_in(3) ? State::failed : State::succeeded,
          .has_response = !draw.one_in(6)};
}

std::vector<KeyInfo> Operators::list() {
  std::vector<KeyInfo> keys;
  Search* const search = ports_.store.search();
  if (search == nullptr) return keys;
  std::string cursor;
  do {
    auto page = search->scan({}, cursor, page_size);
    if (!page) return {};
    keys.insert(keys.end(), page->keys.begin(), page->keys.end());
    cursor = page->next;
  } while (!cursor.empty());
  // The store may be out of reach by now; then there is no list.
  if (ports_.store.search() == nullptr) return {};
  std::erase_if(keys, [this](const KeyInfo& key) { return ports_.history.leaves_out(key.id); });
  ports_.history.listed(keys);
  return keys;
}

void Operators::act(const KeyInfo& seen, const OperatorAction& action) {
  visits_.push_back({.decision = ports_.history.operator_decides(seen), .action = action.action});
  Visit& visit = visits_.back();
  visit.request = request_of(seen, action, visit.decision);
  visit.key.id = seen.id;
  spawn(run(visit));
}

void Operators::note(const Visit& visit, std::string_view what) {
  ports_.world.note(fmt::format("operator {}: {} key {}: {}", visit.decision, admin::name_of(visit.action),
                                to_hex(visit.key.id).substr(0, 8), what));
}

Task<void> Operators::run(Visit& visit) {
  const auto asked = read_action(visit.action, visit.request);
  ONCE_ASSERT(asked.has_value());
  Search* const search = ports_.store.search();
  if (search == nullptr) co_return note(visit, "the store is out of reach");
  const auto page = search->get(visit.key.id);
  if (ports_.store.search() == nullptr) co_return note(visit, "the store is out of reach by now");
  if (!page) co_return note(visit, page.error().detail);
  if (page->keys.empty()) co_return note(visit, "there is no such key");
  visit.key = page->keys.front();
  ports_.history.shown(visit.key);
  if (const auto problem = obstacle(visit.key, visit.action, *asked, page->now)) {
    co_return note(visit, problem->detail);
  }
  Op op = op_of(visit.key, visit.action, *asked);
  // The audit log is written first, and a disk may be slow.
  const Duration most = ports_.world.draw.one_in(3) ? longest_audit : usual_audit;
  const Duration audit = ports_.world.draw.below(most);
  co_await sleep_for(ports_.home, audit);
  ports_.history.sends(visit.decision, op);
  const Effect effect = co_await carry_out(op, visit.key, ports_.lanes, ports_.waiters, ports_.home);
  if (cut_off_) co_return;
  note(visit, name_of(effect));
  ports_.history.operator_received(visit.decision, effect);
}

}  // namespace once::sim
