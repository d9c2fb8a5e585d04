#include "admin/sessions.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <openssl/crypto.h>

#include "base/bytes.hpp"
#include "http/address_set.hpp"

namespace once::admin {

Digest digest_of(std::string_view secret) {
  Sha256 hash;
  hash.update(secret);
  return hash.digest();
}

bool same_digest(const Digest& left, const Digest& right) {
  return CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

std::string Sessions::begin(Random& random, Instant now) {
  std::erase_if(sessions_, [now](const Session& session) { return session.until <= now; });
  if (sessions_.size() == most) sessions_.pop_front();
  std::array<std::uint8_t, 32> bytes{};
  random.fill(bytes);
  std::string id = to_hex(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  sessions_.push_back({.id = digest_of(id), .until = now + lifetime});
  return id;
}

bool Sessions::known(std::string_view id, Instant now) const {
  const Digest digest = digest_of(id);
  bool found = false;
  for (const Session& session : sessions_) {
    found = (same_digest(session.id, digest) && session.until > now) || found;
  }
  return found;
}

void Sessions::end(std::string_view id) {
  const Digest digest = digest_of(id);
  std::erase_if(sessions_, [&](const Session& session) { return same_digest(session.id, digest); });
}

std::string network_of(std::string_view address) {
  constexpr std::size_t network_size = 8;
  if (address.starts_with('[') && address.ends_with(']')) address = address.substr(1, address.size() - 2);
  const auto ip = http::IpAddress::parse(address.substr(0, address.find('%')));
  if (!ip) return std::string(address);
  if (ip->is_ipv4()) return ip->text();
  return to_hex(std::string_view(reinterpret_cast<const char*>(ip->bytes.data()), network_size));
}

FailedLogins::Peer* FailedLogins::find(std::string_view address, Instant now) {
  std::erase_if(peers_, [now](const Peer& peer) { return peer.since + window <= now; });
  const auto found = std::ranges::find(peers_, network_of(address), &Peer::network);
  return found == peers_.end() ? nullptr : &*found;
}

bool FailedLogins::barred(std::string_view peer, Instant now) {
  const Peer* known = find(peer, now);
  return known != nullptr && known->count >= most;
}

void FailedLogins::add(std::string_view peer, Instant now) {
  if (Peer* known = find(peer, now)) {
    ++known->count;
    return;
  }
  if (peers_.size() == most_peers) peers_.erase(peers_.begin());
  peers_.push_back({.network = network_of(peer), .since = now, .count = 1});
}

std::optional<std::uint64_t> LineLimit::allow(std::string_view peer, Instant now) {
  const std::string network = network_of(peer);
  const auto found = std::ranges::find(peers_, network, &Peer::network);
  if (found != peers_.end()) {
    if (now < found->last + between) {
      ++found->left_out;
      return std::nullopt;
    }
    found->last = now;
    return std::exchange(found->left_out, 0);
  }
  if (peers_.size() == most_peers) {
    std::erase_if(peers_, [now](const Peer& each) { return each.last + between <= now; });
    if (peers_.size() == most_peers) return std::nullopt;
  }
  peers_.push_back({.network = network, .last = now, .left_out = 0});
  return 0;
}

}  // namespace once::admin
