// once keys release, resolve and forget with filters: reads and shows the matching keys; after confirmation they are
// changed in batches, each only if it is unchanged since.
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>

#include <fmt/format.h>

#include "cli/keys.hpp"
#include "cli/output.hpp"
#include "core/json_text.hpp"

namespace once::cli {

namespace {

// The limit of the admin interface for one request.
constexpr std::size_t batch_size = 100;
constexpr std::size_t most_shown = 20;
// Without a terminal, progress is logged.
constexpr std::size_t reported_every = 1000;

struct Chosen {
  std::string id;
  std::string version;
};

// The results of the batches.
struct Tally {
  std::map<std::string, std::size_t> by_result;
  std::string json;  // of every key
  std::size_t shown = 0;

  std::size_t of(const std::string& result) const {
    const auto found = by_result.find(result);
    return found == by_result.end() ? 0 : found->second;
  }
  void add(const std::string& id, const std::string& result, std::string_view detail) {
    ++by_result[result];
    std::vector<std::pair<std::string, std::string>> members = {{"id", id}, {"result", result}};
    if (!detail.empty()) members.emplace_back("detail", detail);
    json.append(json.empty() ? "" : ",\n").append(json_object(members));
    if (result == "done" || ++shown > most_shown) return;
    print_error(fmt::format("{} {}: {}", id.substr(0, 16), result, detail));
  }
};

std::string_view past(std::string_view action) {
  if (action == "release") return "released";
  return action == "resolve" ? "resolved" : "forgotten";
}

std::string counted(std::size_t count) {
  return fmt::format("{} {}", count, count == 1 ? "key" : "keys");
}

// Only these states can be resolved or released.
bool can_fit(std::string_view action, const std::string& state) {
  return action == "forget" || state.empty() || state == "unknown" || state == "lapsed" || state == "unsettled";
}

void show_chosen(const std::vector<JsonTree>& first, const std::map<std::string, std::size_t>& by_state,
                 std::size_t count) {
  print_table(first);
  if (count > first.size()) print(fmt::format("… and {} more\n", count - first.size()));
  std::string parts;
  for (const auto& [state, of_it] : by_state) parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", of_it, state);
  print(fmt::format("{}: {}\n", counted(count), parts));
}

// Counts the results of a batch; keys that were not tried return to the front. Returns whether to send
// another batch.
bool take_results(const JsonTree& answer, const std::map<std::string, std::string>& versions, std::deque<Chosen>& queue,
                  Tally& tally) {
  std::map<std::string, std::pair<std::string, std::string>> results;  // result and detail, by id
  const JsonTree* keys = answer.find("keys");
  for (const JsonTree& key : keys != nullptr && keys->array() != nullptr ? *keys->array() : JsonTree::Array()) {
    const bool has_detail = key.find("detail") != nullptr && key.find("detail")->string() != nullptr;
    results[text_of(key, "id")] = {text_of(key, "result"), has_detail ? text_of(key, "detail") : ""};
  }
  std::vector<Chosen> left;
  for (const auto& [id, version] : versions) {
    const auto found = results.find(id);
    if (found == results.end()) {
      tally.add(id, "unknown", "the response has no result for this key");
    } else if (found->second.first == "left") {
      left.push_back({.id = id, .version = version});
    } else {
      tally.add(id, found->second.first, found->second.second);
    }
  }
  queue.insert(queue.begin(), left.begin(), left.end());
  return left.size() < versions.size();
}

class Progress {
 public:
  explicit Progress(std::size_t all) : all_(all) {}
  ~Progress() {
    if (terminal_ && all_ > batch_size) fmt::print(stderr, "\n");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::size_t tried) {
    if (all_ <= batch_size) return;
    if (terminal_) {
      fmt::print(stderr, "\r{} of {} tried", tried, all_);
    } else if (tried / reported_every != reported_ / reported_every) {
      print_error(fmt::format("{} of {} tried", tried, all_));
    }
    reported_ = tried;
  }

 private:
  std::size_t all_;
  std::size_t reported_ = 0;
  bool terminal_ = ::isatty(STDERR_FILENO) != 0;
};

std::string batch_json(const std::vector<Chosen>& batch, const std::string& members) {
  std::string body = fmt::format("{{{},\"keys\":[", members);
  for (const Chosen& key : batch) {
    body.append(&key == batch.data() ? "" : ",").append(json_object({{"id", key.id}, {"version", key.version}}));
  }
  return body + "]}";
}

// If there is no answer, the change may have been made, so its result is unknown.
std::string_view result_without_answer(const AdminAnswer& answer) {
  return answer.status == 0 && !answer.usage ? "unknown" : "failed";
}

void change_all(const KeysOptions& options, std::string_view action, const std::string& members,
                std::deque<Chosen> queue, Tally& tally) {
  const std::size_t all = queue.size();
  Progress progress(all);
  bool continues = true;
  while (continues && !queue.empty()) {
    std::vector<Chosen> batch;
    std::map<std::string, std::string> versions;
    while (!queue.empty() && batch.size() < batch_size) {
      versions.emplace(queue.front().id, queue.front().version);
      batch.push_back(std::move(queue.front()));
      queue.pop_front();
    }
    const AdminAnswer answer =
        ask_admin(options.admin, "POST", fmt::format("/v1/keys/{}", action), batch_json(batch, members));
    const auto results = answer.status == 200 ? JsonTree::parse(answer.body) : std::nullopt;
    if (results) {
      continues = take_results(*results, versions, queue, tally);
    } else {
      for (const Chosen& key : batch) tally.add(key.id, std::string(result_without_answer(answer)), answer.error);
      continues = false;
    }
    progress.show(all - queue.size());
  }
  for (const Chosen& key : queue) tally.add(key.id, "left", "not tried");
}

int summary(const KeysOptions& options, std::string_view action, const Tally& tally) {
  const std::size_t done = tally.of("done");
  const std::size_t alone = tally.of("changed") + tally.of("refused");
  const std::size_t failed = tally.of("failed") + tally.of("unknown") + tally.of("left");
  if (options.json) {
    std::string counts;
    for (const std::string name : {"done", "changed", "refused", "failed", "unknown", "left"}) {
      counts += fmt::format("\"{}\":{},", name, tally.of(name));
    }
    print(fmt::format("{{{}\"keys\":[{}]}}\n", counts, tally.json));
  } else {
    print(fmt::format("{} {}; changed meanwhile and skipped: {}; refused: {}; failed: {}; unknown: {}; not tried: {}\n",
                      past(action), counted(done), tally.of("changed"), tally.of("refused"), tally.of("failed"),
                      tally.of("unknown"), tally.of("left")));
  }
  if (tally.shown > most_shown) {
    print_error(fmt::format("and {} more that were not {}; --json lists all", tally.shown - most_shown, past(action)));
  }
  if (failed > 0) return 1;
  return alone > 0 ? 3 : 0;
}

}  // namespace

bool has_filter(const KeysOptions& options) {
  return !options.state.empty() || !options.caller.empty() || !options.route.empty() || !options.older_than.empty() ||
         !options.newer_than.empty() || !options.before.empty() || !options.after.empty();
}

int change_many(const KeysOptions& options, std::string_view action) {
  if (!has_filter(options)) return usage_error("use the ID of a key, or filters such as --state unknown");
  if (!can_fit(action, options.state)) {
    return usage_error(
        fmt::format("only unknown and lapsed keys can be {}: use --state unknown, lapsed or unsettled", past(action)));
  }
  const auto members = change_members(options, action);
  if (!members) return 2;
  KeysOptions chosen = options;
  if (chosen.state.empty() && action != "forget") chosen.state = "unsettled";
  std::deque<Chosen> queue;
  std::vector<JsonTree> first;
  std::map<std::string, std::size_t> by_state;
  std::string json;
  std::string cursor;
  const int listed = for_each_key(chosen, ~0U, cursor, [&](const JsonTree& key, std::string_view text) {
    queue.push_back({.id = text_of(key, "id"), .version = text_of(key, "version")});
    ++by_state[shown_state(key)];
    if (first.size() < most_shown) first.push_back(key);
    if (options.json && options.dry_run) json.append(json.empty() ? "" : ",\n").append(text);
    return true;
  });
  if (listed != 0) return listed;
  if (options.json && options.dry_run) {
    print(fmt::format("{{\"keys\":[{}]}}\n", json));
    return 0;
  }
  if (queue.empty()) {
    print(options.json ? "{\"keys\":[]}\n" : "no keys\n");
    return 0;
  }
  if (!options.json) show_chosen(first, by_state, queue.size());
  if (options.dry_run) return 0;
  if (!options.yes && !is_interactive()) {
    return usage_error("nothing was changed: there is no terminal to confirm this; use --yes");
  }
  if (!options.yes && !operator_agrees(fmt::format("For each key: {}", consequence(action, options)))) {
    print_error("nothing was changed");
    return 1;
  }
  Tally tally;
  change_all(options, action, *members, std::move(queue), tally);
  return summary(options, action, tally);
}

}  // namespace once::cli
