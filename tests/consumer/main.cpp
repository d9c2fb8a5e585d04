// An expensive call that a double click, a refreshed page and a retry make once.
#include <cstdio>
#include <string>

#include <once/guard.hpp>

using namespace std::chrono_literals;

struct Answer {
  bool ok = false;
  std::string stop_reason;
  std::string data;
};

int calls = 0;

once::Json run_ai_tennis(const std::string& section) {
  ++calls;  // here money is spent
  return {R"({"ok": true, "data": {"section": ")" + section +
          R"("}, "prompt": "You are a copywriter", "model": "m-1"})"};
}

Answer propose_copy(once::Guard& guard, const std::string& user_text) {
  const auto result = guard.run(
      {
          .tenant = "launchbase",
          .scope = "actionRequests.aiProposeCopy",
          .inputs =
              {
                  {"intakeId", 123},
                  {"actionRequestId", 456},
                  {"userTextHash", once::hash_text(user_text)},
                  {"targetSection", "hero"},
              },
          .ttl = 24h,
          .takeover_after = 5min,
          .store_only = {"ok", "stopReason", "createdActionRequestIds", "traceId", "needsHuman", "cached", "data"},
          .never_store = {"_internal", "debug", "prompt", "error.message", "stack", "provider", "model", "requestId"},
      },
      [&] { return run_ai_tennis("hero"); });

  switch (result.status) {
    case once::guard::Status::succeeded: return {.ok = true, .data = result.value->text};  // cached or fresh
    case once::guard::Status::in_progress: return {.stop_reason = "in_progress"};
    case once::guard::Status::failed: return {.stop_reason = std::string(result.stop_reason())};
  }
  return {};
}

int main() {
  if (once::Guard::open({.store = "memory:"})) return 1;  // production, and no secret
  const auto other = once::Guard::open({.store = "postgres://localhost/x", .secret = "an unpredictable secret"});
  if (other || other.error().detail != "this program is linked without the postgres store: link once::postgres")
    return 1;

  auto guard = once::Guard::open({.store = "memory:", .secret = "an unpredictable secret"});
  if (!guard) {
    std::fprintf(stderr, "%s\n", guard.error().detail.c_str());
    return 1;
  }
  const Answer fresh = propose_copy(*guard, "Make it\n  shine");
  const Answer cached = propose_copy(*guard, " Make it shine ");
  std::printf("%s\n%s\n%d\n", fresh.data.c_str(), cached.data.c_str(), calls);
  const bool right = fresh.ok && cached.ok && calls == 1 && fresh.data.find("prompt") != std::string::npos &&
                     cached.data == R"({"ok":true,"data":{"section":"hero"}})";
  return right ? 0 : 1;
}
