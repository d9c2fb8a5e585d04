// Parses and writes the JSON of the keys API. Nothing here uses a store.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_tree.hpp"
#include "gateway/identity/asked_operation.hpp"
#include "store/search.hpp"
#include "store/store.hpp"

namespace once::admin {

std::string_view name_of(State state);
// The name of an index of CountsByState.
std::string_view counted_name(std::size_t place);
std::optional<State> state_named(std::string_view name);

// Appends ,"body":"…", or ,"body_base64":"…" if it is not UTF-8.
void append_body(std::string& out, std::string_view body);

// Whether the owner is executing.
bool is_live(const KeyInfo& key, Time now);

// Changes with every claim and every end; does not reveal the nonce.
std::string version_of(const KeyInfo& key);

// {"id":…}; with the outcome if `outcome` is set. `members` are inserted first: "\"done\":\"released\",".
std::string key_json(const KeyInfo& key, Time now, std::string_view members = "",
                     const OutcomeBytes& outcome = nullptr);
std::string page_json(const KeyPage& page);

// Parses RFC 3339 such as "2026-11-15T04:03Z", with or without seconds and fraction, and with an offset instead of Z.
std::optional<Time> parse_time(std::string_view text);

// Which keys of a state to list. Started keys have an owner that is executing, or one that is gone; only the latter
// need an operator.
enum class Among : std::uint8_t {
  all,
  lapsed,     // started, but the owner is gone
  unsettled,  // lapsed or unknown: can be resolved and released
};

// The parameters of /v1/keys?…; the error is for people.
struct ListRequest {
  KeyFilter filter;
  Among among = Among::all;
  std::string cursor;
  std::size_t limit = 50;
};
std::expected<ListRequest, std::string> read_list(std::string_view query, Time now);
// Unsettled keys are listed in two parts, lapsed and then unknown, so that one that becomes unknown meanwhile is not
// missed. Sets the state and cursor of the part that the cursor is in; returns whether the cursor is valid.
bool choose_part(ListRequest& list);
// Removes keys that do not match, and turns the part's cursor into one of the whole list.
void fit_page(KeyPage& page, const ListRequest& list);
// Whether body=1 is given.
bool wants_body(std::string_view query);

struct FindRequest {
  std::optional<AskedRequest> request{};
  // For the claims API instead.
  std::string tenant{};
  std::string scope{};
  std::string key{};
};
std::expected<FindRequest, std::string> read_find(std::string_view body);

struct ActionRequest {
  std::string version;
  std::string by;
  std::string reason;
  // resolve
  State state = State::succeeded;
  OutcomeBytes outcome;  // null: no response is kept; for stop: the head of the recorded part
};
enum class Action : std::uint8_t { release, resolve, forget, stop };
std::expected<ActionRequest, std::string> read_action(Action action, std::string_view body);

// A change of many keys, each with the version that was seen; `version` of the terms is empty.
struct SeenKey {
  OperationId id;
  std::string version;
};
struct BulkRequest {
  ActionRequest terms;
  std::vector<SeenKey> keys;
};
inline constexpr std::size_t most_bulk_keys = 100;
std::expected<BulkRequest, std::string> read_bulk(Action action, std::string_view body);

// The effect of an action. `seen` is a lookup made after an op that was not done, because an earlier try may have been
// done and its answer lost.
enum class Effect : std::uint8_t { done, none, unknown };
Effect effect_of(const Op& tried, const KeyInfo& key, const Op& seen);

}  // namespace once::admin
