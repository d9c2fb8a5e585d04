// The good client in C++: agent URL TITLE [PLATFORM AGENT]. Link once_client.
//
// The result is one line on standard output; every try is a line on standard error.
#include <cstdio>
#include <string>

#include <once/client.hpp>

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string text(std::string_view view) {
  return std::string(view);
}

void report(const once::client::TryReport& tried) {
  const std::string pause =
      tried.next_after ? "again in " + std::to_string(tried.next_after->count()) + " ms" : "the last";
  std::fprintf(stderr, "try %u: %s, %s\n", tried.number, text(name(tried.happened)).c_str(), pause.c_str());
}

int tell(const once::client::Result& result) {
  const int status = result.answer ? result.answer->status : 0;
  if (status == 201) {
    const bool replayed = result.answer->replayed == once::client::Replayed::yes;
    std::printf("made%s: %s", replayed ? " before" : "", result.answer->body.c_str());
    return 0;
  }
  const bool unknown = result.work == once::client::Work::unknown ||
                       (result.answer && result.answer->header("Idempotency-Status") == "unknown");
  if (unknown) {
    std::printf("%d: nobody knows whether it was made; go on with key %s\n", status, result.key.c_str());
  } else {
    std::printf("%d: not made\n", status);
  }
  return 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3 && count != 5) {
    std::fprintf(stderr, "usage: agent URL TITLE [PLATFORM AGENT]\n");
    return 2;
  }
  const once::Client client(
      {.deadline = seconds(30), .first_backoff = milliseconds(50), .longest_backoff = seconds(1)});
  const once::client::Request task{.url = arguments[1],
                                   .headers = {{"Content-Type", "application/json"},
                                               {"X-Platform-Id", count == 5 ? arguments[3] : "acme"},
                                               {"X-Agent-Id", count == 5 ? arguments[4] : "robin"}},
                                   .body = R"({"title": ")" + std::string(arguments[2]) + R"("})"};
  return tell(client.send(task, {.on_key = {}, .on_try = report}));
}
