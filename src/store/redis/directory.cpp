#include "store/redis/directory.hpp"

#include <algorithm>
#include <utility>

#include "store/redis/discovery.hpp"

namespace once::redis {

namespace {

// The pause after a survey without changes, so that a server that is down does not cause constant surveys of all
// others.
constexpr Duration between_surveys = std::chrono::milliseconds(50);

bool contains(const auto& list, const auto& value) {
  return std::ranges::find(list, value) != list.end();
}

void add_once(std::vector<StoreHost>& hosts, const StoreHost& host) {
  if (!contains(hosts, host)) hosts.push_back(host);
}

}  // namespace

std::shared_ptr<const Map> Directory::now() const {
  const std::scoped_lock lock(mutex_);
  return map_;
}

Directory::Begun Directory::begin_asking(Deadline deadline) {
  std::unique_lock lock(asking_mutex_);
  const Duration most(deadline.milliseconds_left());
  if (!asked_.wait_for(lock, most, [this] { return !asking_; })) return Begun::timed_out;
  asking_ = true;
  return Begun::yes;
}

void Directory::end_asking() {
  const std::scoped_lock lock(asking_mutex_);
  asking_ = false;
  asked_.notify_one();
}

Result<void> Directory::find_again(const Map* seen, Deadline deadline, const Hint& hint) {
  if (begin_asking(deadline) == Begun::timed_out) {
    return std::unexpected(Error{.source = ErrorSource::store,
                                 .retryable = Retryable::yes,
                                 .detail = "Redis: the servers could not be discovered in time"});
  }
  struct End {
    Directory& directory;
    ~End() { directory.end_asking(); }
  };
  const End end{*this};
  const std::shared_ptr<const Map> known = now();
  if (known.get() != seen) return {};
  if (last_asked_ != std::chrono::nanoseconds() && monotonic_now() < last_asked_ + between_surveys) {
    if (last_error_) return std::unexpected(*last_error_);
    return {};
  }
  auto layout = survey(seen, deadline, hint);
  last_asked_ = monotonic_now();
  last_error_.reset();
  if (!layout) {
    last_error_ = layout.error();
    return std::unexpected(std::move(layout.error()));
  }
  adopt(*layout);
  return {};
}

Result<Layout> Directory::survey(const Map* seen, Deadline deadline, const Hint& hint) const {
  const Options& options = context_.options;
  switch (options.mode) {
    case Mode::single:
      if (options.hosts.size() == 1) return Layout{.nodes = options.hosts, .owners = {}};
      return find_master(context_, deadline);
    case Mode::sentinel: return ask_sentinels(context_, deadline);
    case Mode::cluster: break;
  }
  std::vector<StoreHost> nodes;
  if (hint.ask_first) nodes.push_back(*hint.ask_first);
  if (seen != nullptr) {
    for (const auto& node : seen->nodes) add_once(nodes, node->host());
  }
  for (const StoreHost& host : options.hosts) add_once(nodes, host);
  for (const StoreHost& late : hint.ask_last) {
    if (std::erase(nodes, late) > 0) nodes.push_back(late);
  }
  return ask_cluster(context_, nodes, deadline);
}

std::shared_ptr<Node> Directory::node_at_locked(const StoreHost& host) {
  std::shared_ptr<Node>& node = nodes_[name_of(host)];
  if (!node) node = std::make_shared<Node>(context_, host, ++last_number_);
  return node;
}

std::shared_ptr<Node> Directory::node_at(const StoreHost& host) {
  const std::scoped_lock lock(mutex_);
  return node_at_locked(host);
}

void Directory::adopt(const Layout& layout) {
  const std::scoped_lock lock(mutex_);
  auto map = std::make_shared<Map>();
  for (const StoreHost& host : layout.nodes) map->nodes.push_back(node_at_locked(host));
  map->owners = layout.owners;
  // An equal map is not a change: threads that wait for a change keep waiting.
  if (map_ && map_->nodes == map->nodes && map_->owners == map->owners) return;
  map_ = std::move(map);
  for (std::size_t slot = 0; slot < map_->owners.size(); ++slot) {
    const auto owner = map_->owner_of(static_cast<std::uint16_t>(slot));
    if (owner) parts_[slot].store(static_cast<std::uint32_t>(owner->number()), std::memory_order_relaxed);
  }
  // Nodes that left the map are destroyed when the batches that use them end.
  std::erase_if(nodes_, [this](const auto& entry) { return !contains(map_->nodes, entry.second); });
  changed_.notify_all();
}

std::vector<std::shared_ptr<Node>> Directory::down() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::shared_ptr<Node>> found;
  for (const auto& [name, node] : nodes_) {
    if (node->is_down()) found.push_back(node);
  }
  return found;
}

void Directory::await_change(const Map* seen, Duration most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, most, [&] { return map_.get() != seen; });
}

}  // namespace once::redis
