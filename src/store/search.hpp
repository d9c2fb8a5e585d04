// Searches for operators: records page by page or by the prefix of an id, and the number of records in each state. It
// is separate from Store, because no request needs it: every call blocks, does a bounded amount of work, and holds no
// lock for long. A page may have fewer keys than requested, even none, without being the last.
//
// Over a whole scan, from an empty cursor to the last page, a record that exists all the time is returned exactly once,
// despite concurrent writes. (Redis may return one twice while its table grows or shrinks; the store removes duplicates
// within a page.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "core/decision.hpp"
#include "core/record.hpp"

namespace once::store {

inline constexpr std::size_t state_count = 5;

// A record without its outcome.
struct KeyInfo {
  OperationId id{};
  Nonce nonce{};
  State state = State::started;  // the current state: an expired record is a tombstone
  BodyKept body_kept = BodyKept::yes;
  Attempt attempt{1};
  Fence fence{1};
  Time started_at{};
  Time lease_until{};  // Time::max(): until the process ends
  Time expires_at{};
  Time forget_at{};
  std::uint64_t outcome_bytes = 0;
  // The labels of the claim (Op). nullopt: unknown.
  std::optional<std::string> tenant{};
  std::optional<std::string> route{};
};

struct KeyFilter {
  std::optional<State> state{};
  std::optional<std::string> tenant{};
  std::optional<std::string> route{};  // only the pattern
  std::optional<Time> started_before{};
  std::optional<Time> started_after{};
};

struct KeyPage {
  std::vector<KeyInfo> keys;
  std::string next;  // the cursor of the next page; empty: this was the last. Plain ASCII without blanks.
  Time now{};        // the store's clock
};

// By state; the last entry counts started records whose owner is gone, which need an operator like unknown ones.
using CountsByState = std::array<std::uint64_t, state_count + 1>;
inline constexpr std::size_t lapsed_at = state_count;

struct KeyCounts {
  CountsByState by_state{};
  std::string next;  // the cursor to continue; empty: everything was counted

  void add(const KeyInfo& key, Time now);
};

// The first bytes of an id, as logged.
using IdPrefix = Blob<8, struct IdPrefixTag>;

class Search {
 public:
  // `cursor` is empty, or `next` of the previous page with the same filter. `limit` is at least 1.
  virtual Result<KeyPage> scan(const KeyFilter& filter, std::string_view cursor, std::size_t limit) = 0;
  // Keys whose id has this prefix, at most two: enough to see that it is ambiguous.
  virtual Result<KeyPage> find(const IdPrefix& prefix) = 0;
  // The record with this id, if it exists.
  virtual Result<KeyPage> get(const OperationId& id);
  // Counts a part of the records; the sum over all cursors is the total.
  virtual Result<KeyCounts> count(std::string_view cursor) = 0;

 protected:
  ~Search() = default;
};

// For stores with whole records: the information about one at `now`.
KeyInfo info_of(const OperationId& id, const Record& record, Time now);
bool fits(const KeyInfo& info, const KeyFilter& filter);
bool begins_with(const OperationId& id, const IdPrefix& prefix);
IdPrefix prefix_of(const OperationId& id);

// A cursor is a list of numbers separated by dots. nullopt: not a valid cursor.
std::string cursor_of(std::initializer_list<std::uint64_t> numbers);
std::optional<std::vector<std::uint64_t>> read_cursor(std::string_view cursor, std::size_t count);
std::unexpected<Error> bad_cursor();
bool is_bad_cursor(const Error& error);

}  // namespace once::store
