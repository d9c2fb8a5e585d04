// The origin of a request as backends see it: X-Forwarded-For, -Proto and -Host, or Forwarded (RFC 7239). Such fields
// in the request are kept only if the peer is a trusted proxy. Made once per connection.
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

// Whether this is one of those fields, or another in which a backend may look for the client's address. The name must
// not be empty.
bool is_forwarded_field(std::string_view name);

class Origin {
 public:
  enum class Transport : std::uint8_t { plain, tls };

  // `peer` has the form of ClientIo::peer.
  Origin(std::string_view peer, Transport transport);

  // Sets whether the peer is a trusted proxy; that may change with every request.
  void trust(const http::AddressSet& proxies);
  PeerTrust peer() const { return peer_; }

  // Whether a field of the request is forwarded unchanged.
  bool keeps(std::string_view name, ForwardedFields fields) const;
  // Appends the fields to the head for the backend.
  void append(std::string& out, const http::RequestHead& head, ForwardedFields fields) const;

 private:
  void append_x_forwarded(std::string& out, const http::RequestHead& head) const;
  void append_forwarded(std::string& out, const http::RequestHead& head) const;

  bool is_unix_;
  std::optional<http::IpAddress> number_;
  PeerTrust peer_ = PeerTrust::client;
  std::string address_;      // in the form of X-Forwarded-For; empty: none
  std::string x_forwarded_;  // X-Forwarded-For and -Proto for a client that is no proxy
  std::string_view proto_;
  std::string element_;  // the element of Forwarded: for and proto
};

}  // namespace once::gateway
