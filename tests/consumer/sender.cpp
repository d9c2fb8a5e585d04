// The client of the same package: nothing listens on that port, and it says so.
#include <string_view>

#include <once/client.hpp>
#include <once/version.hpp>

static_assert(ONCE_VERSION_STRING == std::string_view(PACKAGE_VERSION));
static_assert(ONCE_VERSION_NUMBER >= 100);

int main() {
  once::Client client({.max_retries = 0});
  const auto result = client.send({.url = "http://127.0.0.1:1/"});
  return result.work == once::client::Work::not_sent ? 0 : 1;
}
