// Where a request came from, as backends are told: X-Forwarded-For, -Proto and -Host, or RFC 7239's Forwarded. What a
// client says of it itself counts only if it is a proxy that is trusted. Made once for a connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/identity/host.hpp"
#include "gateway/settings.hpp"
#include "http/address_set.hpp"
#include "http/head.hpp"

namespace once::gateway {

// One of the fields that this is about, or another in which a backend may look for the client's address. The name is
// not empty.
bool is_forwarded_field(std::string_view name);

class Origin {
 public:
  enum class Transport : std::uint8_t { plain, tls };

  // As ClientIo::peer has it.
  Origin(std::string_view peer, Transport transport);

  // Whether the peer is one of these, which may change with every request: what it says of the client counts then.
  void trust(const http::AddressSet& proxies);
  PeerTrust peer() const { return peer_; }

  // Whether a field that came with the request goes on as it is.
  bool keeps(std::string_view name, ForwardedFields fields) const;
  // Adds the fields to the head of a request.
  void append(std::string& out, const http::RequestHead& head, ForwardedFields fields) const;

 private:
  void append_x_forwarded(std::string& out, const http::RequestHead& head) const;
  void append_forwarded(std::string& out, const http::RequestHead& head) const;

  bool is_unix_;
  std::optional<http::IpAddress> number_;
  PeerTrust peer_ = PeerTrust::client;
  std::string address_;      // as X-Forwarded-For has it; empty: there is none
  std::string x_forwarded_;  // for a client: X-Forwarded-For and -Proto
  std::string_view proto_;
  std::string element_;  // of Forwarded: for and proto
};

}  // namespace once::gateway
