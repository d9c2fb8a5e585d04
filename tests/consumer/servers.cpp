// A program that is linked with the stores behind a server: nothing listens on that port, and each says so in its way.
#include <cstdio>
#include <string>

#include <once/guard.hpp>

std::string why_not(const std::string& store) {
  auto guard = once::Guard::open({.store = store,
                                  .secret = "an unpredictable secret",
                                  .store_timeout = std::chrono::seconds(1),
                                  .logging = once::guard::Logging::off});
  if (!guard) return guard.error().detail;
  const auto answered = guard->ping();
  return answered ? "it answers" : answered.error();
}

int main() {
  for (const char* store : {"postgres://nobody@127.0.0.1:1/x", "mysql://nobody@127.0.0.1:1/x", "redis://127.0.0.1:1"}) {
    const std::string why = why_not(store);
    std::printf("%s: %s\n", store, why.c_str());
    if (why == "it answers" || why.find("linked without") != std::string::npos) return 1;
  }
}
