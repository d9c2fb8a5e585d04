// Login sessions and failed logins. Plain values with the time as an argument; bounded.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.hpp"
#include "base/sha256.hpp"

namespace once::admin {

using Instant = std::chrono::nanoseconds;  // monotonic

Digest digest_of(std::string_view secret);
// Compares in constant time.
bool same_digest(const Digest& left, const Digest& right);

class Sessions {
 public:
  static constexpr std::size_t most = 64;  // with more, the oldest ends
  static constexpr std::chrono::hours lifetime{12};

  // Returns the id for the cookie. Only its digest is stored.
  std::string begin(Random& random, Instant now);
  bool known(std::string_view id, Instant now) const;
  void end(std::string_view id);
  std::size_t size() const { return sessions_.size(); }

 private:
  struct Session {
    Digest id;
    Instant until;
  };
  std::deque<Session> sessions_;  // oldest first
};

// The network that limits are counted for: an IPv4 address, or the first 64 bits of an IPv6 address, within which a
// client can choose any.
std::string network_of(std::string_view address);

// Counts wrong tokens by network.
class FailedLogins {
 public:
  static constexpr std::size_t most = 10;  // within `window`
  static constexpr std::size_t most_peers = 256;
  static constexpr std::chrono::minutes window{1};

  // Too many recently: the next token is refused for a while, right or wrong.
  bool barred(std::string_view peer, Instant now);
  void add(std::string_view peer, Instant now);

 private:
  struct Peer {
    std::string network;
    Instant since;
    std::size_t count;
  };
  Peer* find(std::string_view address, Instant now);

  std::vector<Peer> peers_;
};

// Limits log lines that any client can cause: one at a time per network, and for a bounded number of networks.
class LineLimit {
 public:
  static constexpr std::chrono::seconds between{1};
  static constexpr std::size_t most_peers = 256;

  // The number of lines left out since the last one; nullopt: leave this one out too.
  std::optional<std::uint64_t> allow(std::string_view peer, Instant now);

 private:
  struct Peer {
    std::string network;
    Instant last;
    std::uint64_t left_out;
  };
  std::vector<Peer> peers_;
};

}  // namespace once::admin
