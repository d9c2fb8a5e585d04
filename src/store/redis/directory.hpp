// Where the records are now: the master, or the nodes of a cluster and their slots. Asked again when a server is lost
// or says that something moved; by one thread at a time, for all.
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

  // Null: nobody has this slot.
  std::shared_ptr<Node> owner_of(std::uint16_t slot) const {
    if (owners.empty()) return nodes.front();
    return owners[slot] == nobody ? nullptr : nodes[owners[slot]];
  }
};

// Who is likely to know, and who is likely not to answer.
struct Hint {
  std::optional<StoreHost> ask_first{};
  std::vector<StoreHost> ask_last{};
};

class Directory {
 public:
  explicit Directory(Context& context) : context_(context) {}

  // Null: not known yet.
  std::shared_ptr<const Map> now() const;

  // Asks, unless somebody has since `seen` was current or just did in vain.
  Result<void> find_again(const Map* seen, Deadline deadline, const Hint& hint = Hint());

  // Where a redirection leads; perhaps a node that no map has yet.
  std::shared_ptr<Node> node_at(const StoreHost& host);

  // Until the map is another one than `seen`, but no longer than this.
  void await_change(const Map* seen, Duration most);

  // Nodes that are down now.
  std::vector<std::shared_ptr<Node>> down() const;

  // Store::part_of() of a slot: the node that has it. Costs no lock.
  std::size_t part_of(std::uint16_t slot) const { return parts_[slot].load(std::memory_order_relaxed); }

 private:
  // One asks for all; the others wait for it. False: not in time.
  bool begin_asking(Deadline deadline);
  void end_asking();
  Result<Layout> survey(const Map* seen, Deadline deadline, const Hint& hint) const;
  void adopt(const Layout& layout);
  std::shared_ptr<Node> node_at_locked(const StoreHost& host);

  Context& context_;
  std::mutex asking_mutex_;
  std::condition_variable asked_;
  bool asking_ = false;
  // Of whoever asks.
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
