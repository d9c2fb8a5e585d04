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
// In a time that says nothing about where they differ.
bool same_digest(const Digest& left, const Digest& right);

class Sessions {
 public:
  static constexpr std::size_t most = 64;  // more: the oldest is ended
  static constexpr std::chrono::hours lifetime{12};

  // The id for the cookie. Only its digest is kept.
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

// Where somebody is, as far as limits are concerned: an address as it is, or the first 64 bits of an IPv6 one, within
// which anybody can have as many as they like.
std::string network_of(std::string_view address);

// Wrong tokens, by where they came from.
class FailedLogins {
 public:
  static constexpr std::size_t most = 10;  // within `window`
  static constexpr std::size_t most_peers = 256;
  static constexpr std::chrono::minutes window{1};

  // Too many lately: the next token is told to wait, whatever it is.
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

// Lines of the log that anybody can cause: one in a while for each network, and for not too many of these.
class LineLimit {
 public:
  static constexpr std::chrono::seconds between{1};
  static constexpr std::size_t most_peers = 256;

  // How many were left out since the last one that was not; nothing: this one is, too.
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
