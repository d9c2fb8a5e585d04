// The current master, or the nodes of a cluster with their slots. Refreshed when a server is lost or reports a move, by
// one thread at a time for all others.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "store/redis/cluster.hpp"
#include "store/redis/node.hpp"

namespace once::redis {

struct Map {
  std::vector<std::shared_ptr<Node>> nodes;
  std::vector<std::uint16_t> owners;  // as in Layout

  // The node of this slot; null: no node has it.
  std::shared_ptr<Node> owner_of(std::uint16_t slot) const {
    if (owners.empty()) return nodes.front();
    return owners[slot] == no_owner ? nullptr : nodes[owners[slot]];
  }
};

// Which server to ask first, and which last.
struct Hint {
  std::optional<StoreHost> ask_first{};
  std::vector<StoreHost> ask_last{};
};

class Directory {
 public:
  explicit Directory(Context& context) : context_(context) {}

  // Null: not known yet.
  std::shared_ptr<const Map> now() const;

  // Refreshes the map if it is still `seen`. If the last refresh was a moment ago, returns its result instead of asking
  // again.
  Result<void> find_again(const Map* seen, Deadline deadline, const Hint& hint = Hint());

  // The node at the target of a redirection, which may not be in a map yet.
  std::shared_ptr<Node> node_at(const StoreHost& host);

  // Waits until the map differs from `seen`, at most this long.
  void await_change(const Map* seen, Duration most);

  // Nodes that are down now.
  std::vector<std::shared_ptr<Node>> down() const;

  // Store::part_of() of a slot: the node that has it. Needs no lock.
  std::size_t part_of(std::uint16_t slot) const { return parts_[slot].load(std::memory_order_relaxed); }

 private:
  enum class Begun : std::uint8_t { yes, timed_out };
  // One thread refreshes for all; the others wait.
  Begun begin_asking(Deadline deadline);
  void end_asking();
  Result<Layout> survey(const Map* seen, Deadline deadline, const Hint& hint) const;
  void adopt(const Layout& layout);
  std::shared_ptr<Node> node_at_locked(const StoreHost& host);

  Context& context_;
  std::mutex asking_mutex_;
  std::condition_variable asked_;
  bool asking_ = false;
  // Used only by the thread that refreshes the map.
  std::optional<Error> last_error_;
  std::chrono::nanoseconds last_asked_{};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const Map> map_;
  std::map<std::string, std::shared_ptr<Node>> nodes_;  // by name
  std::uint64_t last_number_ = 0;
  std::array<std::atomic<std::uint32_t>, slot_count> parts_{};
};

}  // namespace once::redis
