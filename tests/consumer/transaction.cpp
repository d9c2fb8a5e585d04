// The shapes of docs/guides/library.md that need more than one call: claims, failures and types of your own.
#include <cstdio>
#include <string>

#include <once/guard.hpp>

// A database that is a program's own, as far as this example goes.
struct Database {
  bool commits = true;
  std::string finished_with;

  bool transfer(const std::string& claim) {
    // BEGIN; UPDATE accounts …; SELECT once_finish(claim, 201, '{"Content-Type": "application/json"}', '{"paid": 5}');
    // COMMIT
    finished_with = claim;
    return commits;
  }
};

std::string pay(once::Guard& guard, Database& database) {
  auto claimed = guard.claim({.tenant = "acme", .scope = "payments", .key = "invoice-2041"});
  if (!claimed.claim) return std::string(claimed.outcome.succeeded() ? *claimed.outcome.value : "come back");

  const bool committed = database.transfer(claimed.claim->handle());
  const auto recorded = claimed.claim->recorded();  // also when the answer to COMMIT was lost
  if (recorded.succeeded()) return *recorded.value;
  if (!committed) claimed.claim->fail();  // the next caller does it
  return "not done";
}

struct Headline {
  std::string text;
  int score = 0;
};

template <>
struct once::guard::Codec<Headline> {
  static constexpr std::string_view media_type = "text/plain";
  static std::string encode(const Headline& headline) { return std::to_string(headline.score) + ' ' + headline.text; }
  static std::optional<Headline> decode(std::string_view bytes) {
    const auto blank = bytes.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    return Headline{std::string(bytes.substr(blank + 1)), std::stoi(std::string(bytes.substr(0, blank)))};
  }
};

once::Outcome<Headline> best_headline(once::Guard& guard, const std::string& topic) {
  using Result = std::expected<Headline, std::string>;
  return guard.run(
      {.scope = "headlines", .inputs = {{"topic", once::hash_text(topic)}}, .wait = std::chrono::seconds(10)},
      [&](const once::guard::Running& running) -> Result {
        if (topic.empty()) return std::unexpected("no topic");
        return Headline{"Once.", static_cast<int>(running.attempt())};
      });
}

int main() {
  auto guard = once::Guard::open({.store = "memory:", .secret = "an unpredictable secret"});
  if (!guard) return 1;
  Database database{.commits = false};
  if (pay(*guard, database) != "not done" || database.finished_with.size() != 97) return 1;
  if (best_headline(*guard, "").detail != "no topic") return 1;
  if (best_headline(*guard, "tennis").value->text != "Once.") return 1;
  const auto cached = best_headline(*guard, "tennis");
  return cached.cached() && cached.value->score == 1 ? 0 : 1;
}
