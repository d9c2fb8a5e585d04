// What operators see of a store: its records page by page, by the beginning of an id, and how many there are in each
// state. Beside Store, because none of this is on the path of a request: every call blocks, does a bounded amount of
// work, and holds no lock for long. A page may hold fewer keys than asked for, or none, and still not be the last.
//
// Over a whole scan, from an empty cursor until there is no next one, every record that is there all the time is seen
// exactly once, however much is written meanwhile. (Redis may show one twice while its table grows or shrinks; the
// store keeps that within a page.)
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
  State state = State::started;  // as it stands: an expired one is a tombstone
  BodyKept body_kept = BodyKept::yes;
  Attempt attempt{1};
  Fence fence{1};
  Time started_at{};
  Time lease_until{};  // Time::max(): until the process ends
  Time expires_at{};
  Time forget_at{};
  std::uint64_t outcome_bytes = 0;
  // nullopt: not known.
  std::optional<std::string> tenant{};
  std::optional<std::string> route{};
};

struct KeyFilter {
  std::optional<State> state{};
  std::optional<std::string> tenant{};
  std::optional<std::string> route{};
  std::optional<Time> started_before{};
  std::optional<Time> started_after{};
};

struct KeyPage {
  std::vector<KeyInfo> keys;
  std::string next;  // the cursor of the next page; empty: this was the last. Plain ASCII without blanks.
  Time now{};        // the store's clock
};

// By state, and behind those the started ones whose owner is gone: they wait for somebody, as unknown ones do.
using CountsByState = std::array<std::uint64_t, state_count + 1>;
inline constexpr std::size_t lapsed_at = state_count;

struct KeyCounts {
  CountsByState by_state{};
  std::string next;  // where the count goes on; empty: all are counted

  void add(const KeyInfo& key, Time now);
};

// The beginning of an id, as it is logged.
using IdPrefix = Blob<8, struct IdPrefixTag>;

class Search {
 public:
  // `cursor`: empty, or `next` of the page before, under the same filter. `limit` is at least 1.
  virtual Result<KeyPage> scan(const KeyFilter& filter, std::string_view cursor, std::size_t limit) = 0;
  // Ids that begin so; two are enough to know that it is not only one.
  virtual Result<KeyPage> find(const IdPrefix& prefix) = 0;
  // This one, or none.
  virtual Result<KeyPage> get(const OperationId& id);
  // A part of the count; the whole is their sum.
  virtual Result<KeyCounts> count(std::string_view cursor) = 0;

 protected:
  ~Search() = default;
};

// For stores that hold whole records: what is to be told of one at `now`.
KeyInfo info_of(const OperationId& id, const Record& record, Time now);
bool fits(const KeyInfo& info, const KeyFilter& filter);
bool begins_with(const OperationId& id, const IdPrefix& prefix);
IdPrefix prefix_of(const OperationId& id);

// Cursors are numbers with dots between them. nullopt: it is none of ours.
std::string cursor_of(std::initializer_list<std::uint64_t> numbers);
std::optional<std::vector<std::uint64_t>> read_cursor(std::string_view cursor, std::size_t count);
std::unexpected<Error> bad_cursor();
bool is_bad_cursor(const Error& error);

}  // namespace once::store
