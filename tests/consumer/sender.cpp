// The client of the same package: nothing listens on that port, and it says so.
#include <once/client.hpp>

int main() {
  once::Client client({.max_retries = 0});
  const auto result = client.send({.url = "http://127.0.0.1:1/"});
  return result.work == once::client::Work::not_sent ? 0 : 1;
}
