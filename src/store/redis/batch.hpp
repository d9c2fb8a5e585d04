// Executes one batch of ops: groups them by server, sends to all servers, reads all replies, and repeats this for ops
// that were redirected or certainly not executed. An op whose connection broke is retried once: the nonce makes that
// safe, and the answer says what happened. Batches from lanes are for one server; batches for several come from other
// callers, and while slots move.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/backoff.hpp"
#include "store/redis/directory.hpp"
#include "store/store.hpp"

namespace once::redis {

// The key of an operation is the prefix and the id's hex.
std::string key_of(const Context& context, const OperationId& id);

class Batch {
 public:
  Batch(Context& context, Directory& directory, Deadline deadline, std::span<Op* const> ops);
  // Afterwards every op has its results.
  void run();

 private:
  struct Task {
    Op* op = nullptr;
    std::uint16_t slot = 0;
    bool pending = true;
    bool asking = false;  // `to` accepts it only after ASKING
    bool needs_script = false;
    bool may_be_done = false;  // its connection broke after it was sent
    std::shared_ptr<Node> to;  // the target of a redirection; null: use the map
    const Node* unreachable = nullptr;
    unsigned tries = 0;
    std::string why;  // of the last refusal
  };
  struct Group {
    std::shared_ptr<Node> node;  // outlives the lease
    std::vector<Task*> tasks;
    std::unique_ptr<Node::Lease> link;  // taken after the groups are sorted
    std::chrono::nanoseconds sent_at{};
    std::size_t marks = 0;  // from earlier batches
    bool loads = false;
    bool waits = false;  // WAIT was sent with the batch
  };

  bool route();
  void send(Group& group);
  void append(Group& group);
  void receive(Group& group);
  bool receive_unneeded(Group& group);
  void receive_waited(Group& group, std::span<Task* const> written);
  void mark(Group& group, std::span<Task* const> written);
  enum class Heard : std::uint8_t { answered, written, broken };
  Heard hear(Group& group, Task& task);
  void refused(Group& group, Task& task, std::string_view error);
  void redirected(const Group& group, Task& task, std::string_view error);
  // Handles the rest of a group whose connection broke.
  void broken(Group& group, std::size_t first, const Error& why);
  void before_next_round();
  void give_up(Task& task, StoreFault fault);

  Context& context_;
  Directory& directory_;
  const Deadline deadline_;
  std::vector<Task> tasks_;
  std::vector<Group> groups_;
  std::shared_ptr<const Map> map_;
  // Results of this round.
  Hint hint_;
  bool survey_ = false;
  bool pause_ = false;
  unsigned pauses_ = 0;
  Backoff map_pauses_{std::chrono::milliseconds(10), std::chrono::milliseconds(80)};
};

}  // namespace once::redis
