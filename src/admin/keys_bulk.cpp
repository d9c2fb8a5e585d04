// POST /v1/keys/release, resolve and forget for many keys, each with the version that was seen. A request is limited in
// keys and time; keys it did not reach are reported as left, to be sent again. A failing store ends the request, so
// that it does not wait for the same timeout a hundred times. Every key has its own lines in the audit log.
#include <algorithm>
#include <array>
#include <chrono>

#include <fmt/format.h>

#include "admin/json.hpp"
#include "admin/key_action.hpp"
#include "admin/keys.hpp"
#include "admin/keys_answers.hpp"

namespace once::admin {

using http::ServiceRequest;
using http::ServiceResponse;

enum class BulkResult : std::uint8_t {
  done,
  changed,  // it changed since it was seen, and was left alone
  refused,  // its owner is executing, or the action is impossible for it
  failed,   // nothing was changed
  unknown,  // it may have been done
  left,     // not tried
};

struct BulkKey {
  SeenKey seen;
  std::optional<KeyInfo> key{};  // the current one; nullopt: deleted, or not read
  Time now{};
  BulkResult result = BulkResult::left;
  std::string detail{};
  AuditEntry entry{};
};

namespace {

constexpr std::chrono::seconds longest_bulk{5};
constexpr std::array<std::string_view, 6> bulk_result_names = {"done",   "changed", "refused",
                                                               "failed", "unknown", "left"};

BulkResult bulk_result(Effect effect, OpStatus status) {
  if (effect == Effect::done) return BulkResult::done;
  if (effect == Effect::unknown) return BulkResult::unknown;
  return status == OpStatus::lost ? BulkResult::changed : BulkResult::failed;
}

// Decides whether the action is possible for this key, as far as known before trying; sets the entry.
void judge(BulkKey& key, Action action, const ActionRequest& asked, std::string_view peer) {
  key.entry = {.action = std::string(name_of(action)),
               .operation = to_hex(prefix_of(key.seen.id)),
               .by = asked.by,
               .reason = asked.reason,
               .result = "refused",
               .from = key.key ? std::string(name_of(key.key->state)) : "none",
               .to = "",
               .peer = std::string(peer)};
  key.entry.to = key.entry.from;
  if (!key.key) return;
  ActionRequest of_this = asked;
  of_this.version = key.seen.version;
  if (const auto problem = obstacle(*key.key, action, of_this, key.now)) {
    key.result = version_of(*key.key) == key.seen.version ? BulkResult::refused : BulkResult::changed;
    key.detail = problem->detail;
    return;
  }
  key.entry.result = "begun";
  key.entry.to = state_after(action, asked);
}

bool is_begun(const BulkKey& key) {
  return key.entry.result == "begun";
}

// Nothing was done to the key.
void leave(BulkKey& key) {
  key.entry.result = "refused";
  key.entry.to = key.entry.from;
}

std::string bulk_json(const std::vector<BulkKey>& keys) {
  Json out;
  out.begin('{');
  for (std::size_t i = 0; i < bulk_result_names.size(); ++i) {
    const auto count = std::ranges::count(keys, static_cast<BulkResult>(i), &BulkKey::result);
    out.member(bulk_result_names.at(i), count);
  }
  out.name("keys").begin('[');
  for (const BulkKey& key : keys) {
    out.begin('{').member("id", to_hex(key.seen.id));
    out.member("result", bulk_result_names.at(static_cast<std::size_t>(key.result)));
    if (!key.detail.empty()) out.member("detail", key.detail);
    out.end('}');
  }
  return out.end(']').end('}').take() + "\n";
}

}  // namespace

Task<ServiceResponse> KeysApi::act_on_many(const ServiceRequest& request, Action action, Executor& home) {
  const auto asked = read_bulk(action, request.body);
  if (!asked) co_return refused_key(ProblemKind::parameter_invalid, asked.error());
  std::vector<BulkKey> keys;
  for (const SeenKey& seen : asked->keys) keys.push_back({.seen = seen});
  const auto problem = co_await look_at(keys, home);
  if (problem) co_return key_answer(*problem);
  for (BulkKey& key : keys) {
    const bool looked_at = key.key || key.result != BulkResult::left;
    if (looked_at) judge(key, action, asked->terms, request.peer);
  }
  const auto begun = co_await audit_all(keys, home);
  if (!begun) {
    ports_.log.error("audit log not written", {{"error", begun.error().detail}});
    co_return refused_key(ProblemKind::store_unavailable, "Nothing was changed: " + begun.error().detail + ".");
  }
  co_await change(keys, action, asked->terms, home);
  for (const BulkKey& key : keys) {
    if (!key.entry.action.empty()) audit_.log(key.entry);
  }
  co_return key_answer(bulk_json(keys));
}

// Returns an error only if no key could be read; otherwise continues with those that were.
Task<std::optional<Problem>> KeysApi::look_at(std::vector<BulkKey>& keys, Executor& home) {
  std::optional<Problem> failed;
  const auto get_each = [&]() -> Result<KeyPage> {
    const auto until = monotonic_now() + longest_bulk;
    for (BulkKey& each : keys) {
      if (monotonic_now() >= until) break;
      auto page = search_->get(each.seen.id);
      if (!page && &each == &keys.front()) return page;
      if (!page) break;
      each.now = page->now;
      if (page->keys.empty()) {
        each.result = BulkResult::changed;
        each.detail = "The key is gone.";
      } else {
        each.key = std::move(page->keys.front());
      }
    }
    return KeyPage();
  };
  const Result<KeyPage> looked = co_await search(get_each, home);
  if (!looked) failed = store_problem(looked.error());
  co_return failed;
}

Task<void> KeysApi::change(std::vector<BulkKey>& keys, Action action, const ActionRequest& asked, Executor& home) {
  const auto until = monotonic_now() + longest_bulk;
  bool continues = true;
  std::vector<BulkKey*> begun;
  for (BulkKey& each : keys) {
    if (is_begun(each)) begun.push_back(&each);
  }
  for (BulkKey* each : begun) {
    continues = continues && monotonic_now() < until;
    if (!continues) {
      leave(*each);
      continue;
    }
    Op op = op_of(*each->key, action, asked);
    const Effect effect = co_await carry_out(op, *each->key, ports_.store, ports_.waiters, home);
    each->result = bulk_result(effect, op.status);
    each->entry.result = result_of(effect, op.status);
    if (effect == Effect::none) each->entry.to = each->entry.from;
    if (effect != Effect::done) each->detail = problem_of(effect, op).detail;
    continues = op.status != OpStatus::failed;
  }
  std::vector<BulkKey> ended;
  for (const BulkKey* each : begun) ended.push_back(*each);
  const auto written = co_await audit_all(ended, home);
  if (!written) ports_.log.error("audit log not written", {{"error", written.error().detail}});
}

// One line for each key that was read; writes nothing if there is none.
Task<Result<void>> KeysApi::audit_all(const std::vector<BulkKey>& keys, Executor& home) {
  std::vector<AuditEntry> entries;
  for (const BulkKey& key : keys) {
    if (!key.entry.action.empty()) entries.push_back(key.entry);
  }
  Result<void> written;
  if (!entries.empty()) written = co_await audit_.write(entries, home);
  co_return written;
}

}  // namespace once::admin
