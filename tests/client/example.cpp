// The example of docs/guides/client.md, word for word; client_test compares them. It is built as a program that knows
// nothing of Once but its public header.
#include <once/client.hpp>

int pay(const once::Client& client, const std::string& url) {
  const once::client::Result result = client.send({.url = url,
                                                   .headers = {{"Content-Type", "application/json"}},
                                                   .body = R"({"amount": 4200, "currency": "EUR"})"});
  switch (result.work) {
    case once::client::Work::answered: return result.answer->status;
    case once::client::Work::not_sent: return 0;  // not a byte of it: forget it, or try again later
    case once::client::Work::unknown: return -1;  // keep result.key, and go on with it later
  }
  return -1;
}
