// Redis' search for operators: SCAN on every server in turn, and the heads of the records it returns. SCAN returns a
// key that exists all the time at least once, but any number at a time, so keys that do not fit on a page are kept in
// the cursor: NODE.POSITION.SERVER, and the remaining ids. A position is only valid for the server that returned it, so
// a scan does not continue if another server has taken its place.
#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/crc32c.hpp"
#include "base/text.hpp"
#include "store/redis/batch.hpp"
#include "store/redis/cluster.hpp"
#include "store/redis/directory.hpp"
#include "store/redis/packed.hpp"
#include "store/redis/redis_store.hpp"

namespace once::redis {

struct ScanPosition {
  std::size_t node = 0;
  std::uint64_t position = 0;       // the cursor of SCAN
  std::uint64_t server = 0;         // the server of the position; 0: unknown
  std::vector<std::string> left{};  // hex ids that were read from Redis and not returned yet
  bool ended = false;
};

// What one server returned for some keys.
struct KeysRead {
  KeyPage page;
  std::vector<std::string> elsewhere{};  // keys of slots that it does not have
  std::optional<Redirection> to{};       // the redirection for one of them
  std::string error{};                   // why a key could not be read; empty if it is not a key of Once
};

namespace {

constexpr std::size_t steps_per_page = 128;
constexpr std::size_t keys_per_step = 64;
constexpr std::size_t keys_per_count = 500;
// The limit of ids in a cursor, which is part of a URL.
constexpr std::size_t most_left = 64;
constexpr Duration longest_find = std::chrono::seconds(10);
constexpr int most_redirections = 5;

std::optional<ScanPosition> read_position(std::string_view cursor) {
  ScanPosition at;
  if (cursor.empty()) return at;
  const auto parts = split(cursor, '.');
  const auto node = parse_number(parts[0]);
  const auto position = parts.size() > 1 ? parse_number(parts[1]) : std::nullopt;
  const auto server = parts.size() > 2 ? parse_number(parts[2]) : std::nullopt;
  if (!node || !position || !server || parts.size() > 4 * most_left + 3) return std::nullopt;
  at.node = *node;
  at.position = *position;
  at.server = *server;
  for (std::size_t i = 3; i < parts.size(); ++i) {
    const auto id = from_hex(parts[i]);
    if (!id || id->size() != OperationId::size) return std::nullopt;
    at.left.emplace_back(parts[i]);
  }
  return at;
}

std::string text_of(const ScanPosition& at) {
  if (at.ended && at.left.empty()) return "";
  std::string text = fmt::format("{}.{}.{}", at.node, at.position, at.server);
  for (const std::string& id : at.left) text.append(".").append(id);
  return text;
}

// Escapes a text for a Redis pattern.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("*?[]^\\").contains(c)) out.push_back('\\');
    out.push_back(c);
  }
  return out;
}

std::optional<OperationId> id_in(std::string_view key, std::string_view prefix) {
  if (!key.starts_with(prefix)) return std::nullopt;
  const auto bytes = from_hex(key.substr(prefix.size()));
  if (!bytes || bytes->size() != OperationId::size) return std::nullopt;
  OperationId id;
  std::ranges::copy(*bytes, reinterpret_cast<char*>(id.bytes.data()));
  return id;
}

// The key's information from the replies to GETRANGE and STRLEN.
std::optional<KeyInfo> info_in(const OperationId& id, std::string_view packed, long long size, Time now) {
  const auto record = unpack_record(packed);
  if (!record || forgotten(*record, now)) return std::nullopt;
  KeyInfo info = info_of(id, *record, now);
  const PackedLabels labels = labels_in(packed);
  if (!labels.tenant.empty()) info.tenant = labels.tenant;
  if (!labels.route.empty()) info.route = labels.route;
  const auto whole = static_cast<std::uint64_t>(std::max<long long>(size, 0));
  const std::uint64_t around = head_size + labels.size;
  const bool has_outcome = record->outcome != nullptr && info.state != State::tombstone;
  info.outcome_bytes = has_outcome && whole > around ? whole - around : 0;
  return info;
}

// Identifies a server in a cursor. Never 0.
std::uint64_t server_of(const Node& node) {
  return std::uint64_t{crc32c(name_of(node.host()))} + 1;
}

std::unexpected<Error> strange(std::string_view what) {
  return std::unexpected(Error{.source = ErrorSource::store, .retryable = Retryable::yes, .detail = std::string(what)});
}

}  // namespace

// Leaves out keys that were deleted or are no records.
Result<KeysRead> RedisStore::read_keys(Node& node, const std::vector<std::string>& keys, bool asking) {
  const auto deadline = Deadline::after(context_->settings.timeout);
  auto link = node.take_for_search(deadline);
  if (!link) return std::unexpected(link.error());
  const std::string last_byte = std::to_string(head_size + largest_labels - 1);
  append_command((*link)->commands(), {"TIME"});
  for (const std::string& key : keys) {
    if (asking) append_command((*link)->commands(), {"ASKING"});
    append_command((*link)->commands(), {"GETRANGE", key, "0", last_byte});
    if (asking) append_command((*link)->commands(), {"ASKING"});
    append_command((*link)->commands(), {"STRLEN", key});
  }
  const auto fail = [&](const Error& error) {
    link->drop();
    return std::unexpected(error);
  };
  const auto next = [&] {
    auto reply = (*link)->reply(deadline);
    return reply && asking ? (*link)->reply(deadline) : std::move(reply);
  };
  if (const auto sent = (*link)->send(); !sent) return fail(sent.error());
  const auto time = (*link)->reply(deadline);
  if (!time) return fail(time.error());
  KeysRead read{.page = {.keys = {}, .next = {}, .now = time_in(**time).value_or(Time())}};
  for (const std::string& key : keys) {
    const auto packed = next();
    if (!packed) return fail(packed.error());
    const auto size = next();
    if (!size) return fail(size.error());
    if (is_error(**packed)) {
      const std::string_view error = text_of(**packed);
      const auto to = read_redirection(error, node.host());
      if (to) read.elsewhere.push_back(key);
      if (to) read.to = to;
      if (!to && error_code(error) != "WRONGTYPE") read.error = error;
      continue;
    }
    const auto id = id_in(key, context_->options.prefix);
    if (!id || !is_text(**packed) || (*size)->type != REDIS_REPLY_INTEGER) continue;
    if (auto info = info_in(*id, text_of(**packed), (*size)->integer, read.page.now)) {
      read.page.keys.push_back(*std::move(info));
    }
  }
  return read;
}

Result<KeyPage> RedisStore::scan_step(ScanPosition& at, std::string_view pattern, std::size_t count) {
  // The map may be old: refresh it at the start of a scan.
  const bool begins = at.node == 0 && at.position == 0;
  const auto deadline = Deadline::after(context_->settings.timeout);
  auto map = directory_->now();
  if (!map || begins) {
    if (auto found = directory_->find_again(map.get(), deadline); !found && !map) return std::unexpected(found.error());
    map = directory_->now();
  }
  if (!map) return strange("Redis: no server is known");
  if (at.node >= map->nodes.size()) return bad_cursor();  // or the servers have changed: the scan must start over
  const std::shared_ptr<Node> node = map->nodes[at.node];
  if (at.server != 0 && at.server != server_of(*node)) return bad_cursor();
  std::set<std::string> keys;
  {
    auto link = node->take_for_search(deadline);
    if (!link) return std::unexpected(link.error());
    const auto reply =
        ask(**link, {"SCAN", std::to_string(at.position), "MATCH", pattern, "COUNT", std::to_string(count)}, deadline);
    if (!reply) {
      link->drop();
      return std::unexpected(reply.error());
    }
    const bool whole = is_array(**reply) && (*reply)->elements == 2 && is_array(*(*reply)->element[1]);
    const auto position = whole ? parse_number(text_of(*(*reply)->element[0])) : std::nullopt;
    if (!position) return strange("Redis: unexpected reply to SCAN");
    at.position = *position;
    const redisReply& list = *(*reply)->element[1];
    for (std::size_t i = 0; i < list.elements; ++i) keys.emplace(text_of(*list.element[i]));
  }
  auto read = read_keys(*node, {keys.begin(), keys.end()}, false);
  if (!read) return std::unexpected(read.error());
  // A server that has become a replica, or has just moved a slot away, still lists the keys.
  for (const std::string& key : read->elsewhere) {
    const auto id = id_in(key, context_->options.prefix);
    auto moved = id ? get(*id) : KeyPage();
    if (!moved) return moved;
    std::ranges::move(moved->keys, std::back_inserter(read->page.keys));
  }
  if (at.position == 0) at.ended = ++at.node >= map->nodes.size();
  at.server = at.node < map->nodes.size() ? server_of(*map->nodes[at.node]) : 0;
  return std::move(read->page);
}

Result<KeyPage> RedisStore::scan(const KeyFilter& filter, std::string_view cursor, std::size_t limit) {
  auto at = read_position(cursor);
  if (!at) return bad_cursor();
  KeyPage page;
  const std::string pattern = escaped(context_->options.prefix) + "*";
  const auto take = [&](KeyPage part) {
    page.now = part.now;
    for (KeyInfo& info : part.keys) {
      if (!fits(info, filter)) continue;
      if (page.keys.size() < limit) {
        page.keys.push_back(std::move(info));
      } else {
        at->left.push_back(to_hex(info.id));
      }
    }
  };
  if (!at->left.empty()) {
    for (const std::string& hex : std::exchange(at->left, {})) {
      auto part = get(*id_in(hex, ""));
      if (!part) return part;
      take(std::move(*part));
    }
    // The cursor is at the end of the last server.
    const auto map = directory_->now();
    at->ended = map && at->node >= map->nodes.size();
  }
  std::size_t count = keys_per_step;
  for (std::size_t step = 0; step < steps_per_page && !at->ended && page.keys.size() < limit; ++step) {
    const ScanPosition before = *at;
    const std::size_t had = page.keys.size();
    auto part = scan_step(*at, pattern, count);
    if (!part) return part;
    take(std::move(*part));
    if (at->left.size() <= most_left || count == 1) continue;
    // More than fits into a cursor: repeat in smaller steps.
    page.keys.resize(had);
    *at = before;
    count = std::max<std::size_t>(count / 4, 1);
  }
  page.next = text_of(*at);
  return page;
}

// Follows redirections: only the server that has the slot can say that the record does not exist.
Result<KeyPage> RedisStore::get(const OperationId& id) {
  const auto deadline = Deadline::after(context_->settings.timeout);
  if (!directory_->now()) {
    if (auto found = directory_->find_again(nullptr, deadline); !found) return std::unexpected(found.error());
  }
  const auto map = directory_->now();
  const std::string key = key_of(*context_, id);
  const bool cluster = context_->options.mode == Mode::cluster;
  std::shared_ptr<Node> node = map ? map->owner_of(cluster ? slot_of(key) : 0) : nullptr;
  if (!node) return strange("Redis Cluster: no node serves this key");
  bool asking = false;
  for (int tries = 0; tries < most_redirections; ++tries) {
    auto read = read_keys(*node, {key}, asking);
    if (!read) return std::unexpected(read.error());
    if (!read->error.empty()) return strange(read->error);
    if (!read->to) return std::move(read->page);
    asking = read->to->ask;
    // If the servers cannot be discovered now, the next batch tries again.
    if (!asking) std::ignore = directory_->find_again(map.get(), deadline, {.ask_first = read->to->to});
    node = directory_->node_at(read->to->to);
  }
  return strange("Redis Cluster: the key is being moved to another server");
}

Result<KeyPage> RedisStore::find(const IdPrefix& prefix) {
  const auto deadline = Deadline::after(longest_find);
  const std::string pattern = escaped(context_->options.prefix) + to_hex(prefix) + "*";
  ScanPosition at;
  KeyPage page;
  while (!at.ended) {
    if (deadline.passed())
      return strange("Redis has too many keys to search by the beginning of an id; use all 64 digits");
    auto part = scan_step(at, pattern, 10 * keys_per_count);
    if (!part) return part;
    page.now = part->now;
    for (KeyInfo& info : part->keys) {
      const bool known = std::ranges::find(page.keys, info.id, &KeyInfo::id) != page.keys.end();
      if (!known && begins_with(info.id, prefix)) page.keys.push_back(std::move(info));
    }
  }
  return page;
}

Result<KeyCounts> RedisStore::count(std::string_view cursor) {
  auto at = read_position(cursor);
  if (!at) return bad_cursor();
  auto part = scan_step(*at, escaped(context_->options.prefix) + "*", keys_per_count);
  if (!part) return std::unexpected(part.error());
  KeyCounts counts;
  for (const KeyInfo& info : part->keys) counts.add(info, part->now);
  counts.next = text_of(*at);
  return counts;
}

}  // namespace once::redis
