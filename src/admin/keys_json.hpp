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
// Of a place in CountsByState.
std::string_view counted_name(std::size_t place);
std::optional<State> state_named(std::string_view name);

// ,"body":"…", or ,"body_base64":"…" if it is not UTF-8.
void append_body(std::string& out, std::string_view body);

// The owner is at work.
bool is_live(const KeyInfo& key, Time now);

// Changes with every claim and every end; says nothing of the nonce.
std::string version_of(const KeyInfo& key);

// {"id":…}; with an outcome, as `outcome` tells it. `members` are put before the others: "\"done\":\"released\",".
std::string key_json(const KeyInfo& key, Time now, std::string_view members = "",
                     const OutcomeBytes& outcome = nullptr);
std::string page_json(const KeyPage& page);

// "2026-11-15T04:03Z", with seconds and a fraction or without, and with an offset in place of Z (RFC 3339).
std::optional<Time> parse_time(std::string_view text);

// Which keys of a state are meant. What the store calls started is an owner at work or one that is gone, and only the
// second needs somebody.
enum class Among : std::uint8_t {
  all,
  lapsed,     // started, and the owner is gone
  unsettled,  // lapsed or unknown: what can be resolved and released
};

// /v1/keys?…; the error is for people.
struct ListRequest {
  KeyFilter filter;
  Among among = Among::all;
  std::string cursor;
  std::size_t limit = 50;
};
std::expected<ListRequest, std::string> read_list(std::string_view query, Time now);
// Unsettled keys are two lists, one after the other: lapsed, then unknown, so that one that becomes unknown meanwhile
// is not missed. Sets state and cursor of the list that the cursor is in; false: it is in none.
bool choose_part(ListRequest& list);
// Takes out what does not fit, and makes the cursor of the part one of the whole list.
void fit_page(KeyPage& page, const ListRequest& list);
// Whether body=1 is asked for.
bool wants_body(std::string_view query);

struct FindRequest {
  std::optional<AskedRequest> request{};
  // Or of the claims API.
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
  OutcomeBytes outcome;  // null: no response is kept; stop: what the part that was recorded becomes
};
enum class Action : std::uint8_t { release, resolve, forget, stop };
std::expected<ActionRequest, std::string> read_action(Action action, std::string_view body);

// The same for many keys, each with the version that was seen of it; `version` of the terms is empty.
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

// What an action came to. `seen` is a look-up made after one that the store did not call done: that may have been done
// by a try whose answer was lost.
enum class Effect : std::uint8_t { done, none, unknown };
Effect effect_of(const Op& tried, const KeyInfo& key, const Op& seen);

}  // namespace once::admin
