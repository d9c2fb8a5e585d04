#include "core/host.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace once::core {

TEST(NormaliseHost, spellings_of_one_host_are_one) {
  const std::vector<std::pair<std::string, std::string>> hosts = {
      {"api.example.com", "api.example.com"},
      {"API.Example.COM", "api.example.com"},
      {"api.example.com.", "api.example.com"},
      {"api.example.com:80", "api.example.com"},
      {"API.example.com.:443", "api.example.com"},
      {"api.example.com:", "api.example.com"},
      {"api.example.com:0080", "api.example.com"},
      {"api.example.com:0", "api.example.com:0"},
      {"api.example.com:00", "api.example.com:0"},
      {"API.example.com.:0", "api.example.com:0"},
      {"api.example.com:8080", "api.example.com:8080"},
      {"Api.example.com.:8080", "api.example.com:8080"},
      {"api.example.com:08080", "api.example.com:8080"},
      {"api.example.com.:8080", "api.example.com:8080"},
      {"[2001:DB8::1]", "[2001:db8::1]"},
      {"[2001:db8::1]:80", "[2001:db8::1]"},
      {"[2001:db8::80]", "[2001:db8::80]"},
      {"[::1]:8080", "[::1]:8080"},
      {"[0:0:0:0:0:0:0:1]", "[::1]"},
      {"[0000:0000:0000:0000:0000:0000:0000:0001]:080", "[::1]"},
      {"[0::1].:8080", "[::1]:8080"},
      {"[2001:DB8:0:0::0:1]:8080", "[2001:db8::1]:8080"},
      {"[::FFFF:127.0.0.1]", "[::ffff:127.0.0.1]"},
      {"[::ffff:7f00:1]", "[::ffff:127.0.0.1]"},
      {"[1111:2222:3333:4444:5555:6666:255.255.255.255]", "[1111:2222:3333:4444:5555:6666:ffff:ffff]"},
      {"[FE80::1%25eth0]", "[fe80::1%25eth0]"},  // no address of another machine
      {"[]", "[]"},
      {"[::1", "[::1"},
      {"127.0.0.1:8080", "127.0.0.1:8080"},
      {"", ""},
  };
  for (const auto& [host, normal] : hosts) {
    std::string scratch = "left from before";
    EXPECT_EQ(normalise_host(host, scratch), normal) << host;
    const std::string once(normalise_host(host, scratch));
    EXPECT_EQ(normalise_host(once, scratch), once) << host;
  }
}

TEST(NormaliseHost, other_hosts_stay_apart) {
  std::string scratch;
  std::string other;
  for (const std::string host : {"a.example", "b.example", "a.example:81", "a.example:8080", "a.example:4430",
                                 "a.example..", "[::1]", "[::2]", "[0:0:0:0:0:0:0:4]"}) {
    for (const std::string than : {"xa.example", "a.examplex", "a.example:880", "[::3]"}) {
      EXPECT_NE(normalise_host(host, scratch), normalise_host(than, other));
    }
  }
}

}  // namespace once::core
