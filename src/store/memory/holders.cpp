#include "store/memory/holders.hpp"

#include <algorithm>
#include <bit>

namespace once::memory {

namespace {

constexpr std::size_t cache_line = 64;

}  // namespace

std::size_t Holder::pinned() const {
  const std::size_t pinned = pinned_.load(std::memory_order_relaxed);
  const std::size_t labels = labels_.load(std::memory_order_relaxed);
  const std::size_t records = bytes() - labels;
  if (pinned >= records) return pinned + labels;
  return pinned + static_cast<std::size_t>(static_cast<double>(labels) * static_cast<double>(pinned) /
                                           static_cast<double>(records));
}

std::optional<OperationId> Holder::oldest() const {
  const std::scoped_lock lock(mutex_);
  if (evictable_.empty()) return std::nullopt;
  const auto* const node = static_cast<const RecordTable::Node*>(evictable_.next);
  // The next candidate was not used for long, and the cache miss is most of the cost of an eviction: prefetch it.
  if (node->next != &evictable_) {
    const auto* const next = reinterpret_cast<const char*>(node->next);
    for (std::size_t line = 0; line < sizeof(RecordTable::Node); line += cache_line) __builtin_prefetch(next + line);
  }
  return node->id;
}

std::shared_ptr<Holder> Holders::take(const TenantTag& tag) {
  const std::scoped_lock lock(mutex_);
  std::shared_ptr<Holder>& holder = by_tag_[tag];
  if (holder == nullptr) {
    holder = std::make_shared<Holder>();
    holder->self_ = holder;
    budget_.add(bytes_of_holder);
  }
  ++holder->owners_;
  return holder;
}

void Holders::give_back(const TenantTag& tag) {
  const std::scoped_lock lock(mutex_);
  const auto found = by_tag_.find(tag);
  Holder& holder = *found->second;
  if (--holder.owners_ > 0) return;
  holder.in_class_.unlink();
  by_tag_.erase(found);
  budget_.add(-bytes_of_holder);
}

std::shared_ptr<Holder> Holders::find(const TenantTag& tag) {
  const std::scoped_lock lock(mutex_);
  const auto found = by_tag_.find(tag);
  return found == by_tag_.end() ? nullptr : found->second;
}

void Holders::add(Holder& holder, const Usage& usage) {
  if (usage.pinned != 0) holder.pinned_.fetch_add(usage.pinned, std::memory_order_relaxed);
  if (usage.running != 0) {
    holder.running_.fetch_add(usage.running, std::memory_order_relaxed);
    budget_.add_running(usage.running);
  }
  if (usage.bytes == 0) return;
  holder.bytes_.fetch_add(usage.bytes, std::memory_order_relaxed);
  place(holder);
}

void Holders::add_label(Holder& holder, std::size_t bytes) {
  holder.labels_.fetch_add(bytes, std::memory_order_relaxed);
  holder.bytes_.fetch_add(bytes, std::memory_order_relaxed);
  place(holder);
}

void Holders::link(Holder& holder, Node& node, End end) {
  {
    const std::scoped_lock lock(holder.mutex_);
    (end == End::newest ? holder.evictable_ : *holder.evictable_.next).append(node);
    holder.evictable_count_.fetch_add(1, std::memory_order_relaxed);
  }
  place(holder);
}

void Holders::link_again(Holder& holder, Node& node, End end) {
  const std::scoped_lock lock(holder.mutex_);
  node.unlink();
  (end == End::newest ? holder.evictable_ : *holder.evictable_.next).append(node);
}

void Holders::unlink(Holder& holder, Node& node) {
  {
    const std::scoped_lock lock(holder.mutex_);
    node.unlink();
    holder.evictable_count_.fetch_sub(1, std::memory_order_relaxed);
  }
  place(holder);
}

std::size_t Holders::class_of(std::size_t bytes) {
  constexpr unsigned steps = 3;  // bits
  if (bytes < (1U << steps)) return 1;
  const auto octave = static_cast<std::size_t>(std::bit_width(bytes)) - 1;
  return (octave << steps) + ((bytes >> (octave - steps)) & ((1U << steps) - 1));
}

// Every change of a holder ends here, so of several concurrent changes the last one lists it by its final state.
void Holders::place(Holder& holder) {
  const auto wanted = [&holder] { return holder.evictable_count_.load() == 0 ? 0 : class_of(holder.bytes_.load()); };
  if (holder.class_.load() == wanted()) return;
  const std::scoped_lock lock(mutex_);
  const std::size_t now = wanted();
  holder.class_.store(now);
  holder.in_class_.unlink();
  if (now == 0) return;
  holder.in_class_.holder = &holder;
  by_class_[now].append(holder.in_class_);
  top_ = std::max(top_, now);
}

std::shared_ptr<Holder> Holders::heaviest() {
  const std::scoped_lock lock(mutex_);
  while (top_ > 0 && by_class_[top_].empty()) --top_;
  if (top_ == 0) return nullptr;
  Holder* const found = static_cast<Holder::InClass*>(by_class_[top_].next)->holder;
  return found == &untagged_ ? untagged() : found->self_.lock();
}

}  // namespace once::memory
