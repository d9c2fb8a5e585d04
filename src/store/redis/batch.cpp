#include "store/redis/batch.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "store/redis/answer.hpp"

namespace once::redis {

namespace {

constexpr unsigned most_tries = 8;
// Pauses between retries of commands that a server refuses for now: 10, 20, 40 and 80 ms. A lane must not wait for a
// whole failover.
constexpr unsigned most_pauses = 4;

void append_key(std::string& out, const Context& context, const OperationId& id) {
  out += context.options.prefix;
  append_hex(out, id.view());
}

bool only_reads(Verb verb) {
  return verb == Verb::lookup || verb == Verb::read;
}

// The number of replicas that must have the writes, and how long Redis may wait for them.
struct WaitArguments {
  explicit WaitArguments(const ServerSettings& settings)
      : replicas(std::to_string(settings.wait_replicas)),
        milliseconds(std::to_string(std::max<std::int64_t>(settings.wait_timeout.count(), 1))) {}  // 0: no limit

  std::string replicas;
  std::string milliseconds;
};

}  // namespace

std::string key_of(const Context& context, const OperationId& id) {
  std::string key;
  append_key(key, context, id);
  return key;
}

Batch::Batch(Context& context, Directory& directory, Deadline deadline, std::span<Op* const> ops)
    : context_(context), directory_(directory), deadline_(deadline) {
  tasks_.reserve(ops.size());
  for (Op* const op : ops) {
    op->record.reset();
    op->chunks.clear();
    op->error.clear();
    Task& task = tasks_.emplace_back();
    task.op = op;
    if (context.options.mode == Mode::cluster) task.slot = slot_of(context.options.prefix, op->id);
  }
}

void Batch::run() {
  while (route()) {
    for (Group& group : groups_) send(group);
    for (Group& group : groups_) receive(group);
    groups_.clear();
    before_next_round();
  }
}

// Groups the pending ops by node; false if there are none.
bool Batch::route() {
  map_ = directory_.now();
  std::string unknown = "no server known";
  if (!map_) {
    const auto found = directory_.find_again(nullptr, deadline_);
    if (!found) unknown = found.error().detail;
    map_ = directory_.now();
  }
  for (Task& task : tasks_) {
    if (!task.pending) continue;
    if (!task.to && !map_) task.why = unknown;
    const std::shared_ptr<Node> node = task.to ? task.to : map_ ? map_->owner_of(task.slot) : nullptr;
    if (!node && map_) task.why = fmt::format("Redis Cluster: no node serves slot {}", task.slot);
    if (!node || node.get() == task.unreachable || task.tries >= most_tries || (task.tries > 0 && deadline_.passed())) {
      give_up(task, StoreFault::refused);
      continue;
    }
    auto group = std::ranges::find(groups_, node, &Group::node);
    if (group == groups_.end()) group = groups_.emplace(group, Group{.node = node});
    group->tasks.push_back(&task);
    if (task.tries++ > 0) context_.counts.retried.fetch_add(1, std::memory_order_relaxed);
  }
  std::ranges::sort(groups_, {}, [](const Group& group) { return group.node->number(); });
  return !groups_.empty();
}

void Batch::give_up(Task& task, StoreFault fault) {
  task.pending = false;
  if (task.may_be_done) {
    fault = StoreFault::unavailable;
    context_.counts.indeterminate.fetch_add(1, std::memory_order_relaxed);
  }
  answer_failed(*task.op, fault, task.why);
}

void Batch::send(Group& group) {
  auto link = group.node->take(deadline_);
  if (!link) {
    survey_ = true;
    hint_.ask_last.push_back(group.node->host());
    for (Task* task : group.tasks) {
      task->why = link.error().detail;
      task->unreachable = group.node.get();
      task->to.reset();
      task->asking = false;
    }
    return;
  }
  group.link = std::make_unique<Node::Lease>(std::move(*link));
  append(group);
  group.sent_at = monotonic_now();
  if (const auto sent = (*group.link)->send(); !sent) broken(group, 0, sent.error());
}

void Batch::append(Group& group) {
  group.marks = (*group.link)->append_later();
  std::string& out = (*group.link)->commands();
  group.loads = std::ranges::any_of(group.tasks, &Task::needs_script);
  if (group.loads) context_.scripts.append_load(out);
  const bool confirm = context_.settings.wait_replicas > 0;
  const CallTerms terms{.confirm = confirm, .claims_until = group.node->clock().latest_at(deadline_.when())};
  std::string key;
  for (const Task* task : group.tasks) {
    if (task->asking) append_command(out, {"ASKING"});
    key.clear();
    append_key(key, context_, task->op->id);
    context_.scripts.append_call(out, *task->op, context_.options.prefix, key, terms);
  }
  // Lookups rarely write, and without a replica WAIT takes all of wait_timeout. Those that did write wait afterwards.
  const auto writes = [](const Task* task) { return !only_reads(task->op->verb); };
  group.waits = confirm && std::ranges::any_of(group.tasks, writes);
  if (!group.waits) return;
  const WaitArguments wait(context_.settings);
  append_command(out, {"WAIT", wait.replicas, wait.milliseconds});
}

void Batch::receive(Group& group) {
  if (!group.link || !receive_unneeded(group)) return;
  std::vector<Task*> written;
  for (std::size_t i = 0; i < group.tasks.size(); ++i) {
    Task& task = *group.tasks[i];
    switch (hear(group, task)) {
      case Heard::answered: break;
      case Heard::written:
        if (context_.settings.wait_replicas > 0) written.push_back(&task);
        break;
      case Heard::broken: {
        const Error why{.source = ErrorSource::store, .retryable = Retryable::yes, .detail = task.why};
        for (Task* each : written) each->pending = true;  // not confirmed by the replicas: ask and wait again
        group.tasks.insert(group.tasks.begin() + static_cast<std::ptrdiff_t>(i), written.begin(), written.end());
        return broken(group, i, why);
      }
    }
  }
  if (group.waits || !written.empty()) receive_waited(group, written);
}

bool Batch::receive_unneeded(Group& group) {
  const std::size_t count = group.marks + (group.loads ? script_count : 0);
  for (std::size_t i = 0; i < count; ++i) {
    const auto reply = (*group.link)->reply(deadline_);
    if (!reply) {
      broken(group, 0, reply.error());
      return false;
    }
    // If loading failed, the script is reported as missing again below; those retries are bounded.
  }
  for (Task* task : group.tasks) task->needs_script = false;
  return true;
}

Batch::Heard Batch::hear(Group& group, Task& task) {
  Link& link = **group.link;
  if (task.asking) {
    const auto asked = link.reply(deadline_);
    if (!asked) {
      task.why = asked.error().detail;
      return Heard::broken;
    }
  }
  const auto reply = link.reply(deadline_);
  if (!reply) {
    task.why = reply.error().detail;
    return Heard::broken;
  }
  if (is_error(**reply)) {
    refused(group, task, text_of(**reply));
    return Heard::answered;
  }
  const Read read = read_reply(*task.op, **reply);
  if (read == Read::nonsense) {
    task.why = fmt::format("Redis at {}: unexpected reply from a script of Once", link.name());
    return Heard::broken;
  }
  if (read != Read::refused) group.node->clock().learn(task.op->now, group.sent_at);
  if (read == Read::late) {
    task.why =
        fmt::format("Redis at {}: the claim arrived too late, or the server's clock was set forwards", link.name());
    return Heard::answered;
  }
  task.pending = false;
  return read == Read::written ? Heard::written : Heard::answered;
}

void Batch::refused(Group& group, Task& task, std::string_view error) {
  task.why = fmt::format("Redis at {}: {}", (*group.link)->name(), error);
  switch (refusal_of(error)) {
    case Refusal::lasting: return give_up(task, StoreFault::refused);
    case Refusal::full: return give_up(task, StoreFault::full);
    case Refusal::no_script: task.needs_script = true; return;
    case Refusal::redirection: return redirected(group, task, error);
    case Refusal::not_master:
      survey_ = true;
      hint_.ask_last.push_back(group.node->host());
      [[fallthrough]];
    case Refusal::not_now:
      pause_ = true;
      task.to.reset();
      task.asking = false;
      return;
  }
}

void Batch::redirected(const Group& group, Task& task, std::string_view error) {
  const auto redirection = read_redirection(error, group.node->host());
  if (!redirection || context_.options.mode != Mode::cluster) return give_up(task, StoreFault::refused);
  task.to = directory_.node_at(redirection->to);
  task.asking = redirection->ask;
  if (redirection->ask) return;
  survey_ = true;
  hint_.ask_first = redirection->to;
}

void Batch::broken(Group& group, std::size_t first, const Error& why) {
  const bool sent = (*group.link)->anything_sent();
  for (std::size_t i = first; i < group.tasks.size(); ++i) {
    Task& task = *group.tasks[i];
    task.why = why.detail;
    task.to.reset();
    task.asking = false;
    const bool asked_before = task.may_be_done;
    task.may_be_done = task.may_be_done || sent;
    // Retry once on another connection, if this was the first try and time is left.
    if ((asked_before && sent) || deadline_.passed()) give_up(task, StoreFault::refused);
  }
  // A node that did not answer for half of the timeout hangs: the next batch must not wait for it again.
  if (deadline_.passed() && monotonic_now() - group.sent_at >= context_.settings.timeout / 2) group.node->go_down(why);
  survey_ = true;
  hint_.ask_last.push_back(group.node->host());
  group.link->drop();
  group.link.reset();
}

void Batch::receive_waited(Group& group, std::span<Task* const> written) {
  const WaitArguments wait(context_.settings);
  const auto reply = group.waits ? (*group.link)->reply(deadline_)
                                 : ask(**group.link, {"WAIT", wait.replicas, wait.milliseconds}, deadline_);
  const bool is_number = reply && (*reply)->type == REDIS_REPLY_INTEGER;
  const long long have = is_number ? (*reply)->integer : 0;
  const std::size_t wanted = context_.settings.wait_replicas;
  if (!reply) {
    group.link->drop();
    group.link.reset();
  }
  if (have >= static_cast<long long>(wanted)) return mark(group, written);
  const std::string why = is_number ? fmt::format("written, but only {} of {} replicas have it", have, wanted)
                                    : fmt::format("written, but it is unknown whether {} replicas have it", wanted);
  for (Task* task : written) {
    context_.counts.indeterminate.fetch_add(1, std::memory_order_relaxed);
    answer_failed(*task->op, StoreFault::unavailable, why);
  }
}

// Marks outcomes that are on the replicas: from now on they are returned without waiting. The next batch sends the
// marks.
void Batch::mark(Group& group, std::span<Task* const> written) {
  for (const Task* task : written) {
    const Op& op = *task->op;
    const bool recorded = writes_outcome(op.verb) && op.final_state == State::succeeded;
    const bool returned = (only_reads(op.verb) && op.record->state == State::succeeded) ||
                          (op.verb == Verb::claim && op.verdict != Verdict::execute);
    if (!recorded && !returned) continue;
    context_.scripts.append_mark((*group.link)->later(), key_of(context_, op.id), op.record->nonce);
  }
}

void Batch::before_next_round() {
  const bool anything_left = std::ranges::any_of(tasks_, &Task::pending);
  if (survey_ && !deadline_.passed()) {
    // If the servers cannot be discovered now, the next batch tries again.
    if (const auto found = directory_.find_again(map_.get(), deadline_, hint_); !found) {
      context_.log.debug("Redis: the servers could not be discovered", {{"error", found.error().detail}});
    }
  }
  if (pause_ && anything_left) {
    if (pauses_ == most_pauses) {
      for (Task& task : tasks_) {
        if (task.pending) give_up(task, StoreFault::refused);
      }
    } else {
      ++pauses_;
      directory_.await_change(map_.get(), map_pauses_.next());
    }
  }
  hint_ = Hint();
  survey_ = false;
  pause_ = false;
}

}  // namespace once::redis
