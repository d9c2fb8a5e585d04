// The second example of docs/guides/client.md, word for word; client_test compares them.
#include <iostream>

#include <once/client.hpp>

bool ask(const once::Client& client, const std::string& url, const std::string& prompt) {
  const once::client::Reader reader{.on_bytes = [](std::string_view bytes) {
    std::cout << bytes << std::flush;
    return once::client::Reading::go_on;
  }};
  const once::client::StreamResult got = client.stream({.url = url, .body = prompt}, reader);
  if (got.end == once::client::StreamEnd::whole) return true;
  std::cerr << name(got.end) << " after " << got.received << " bytes, key " << got.result.key << '\n';
  return false;
}
