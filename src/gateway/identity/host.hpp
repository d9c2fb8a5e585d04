// The host that a request is for. It is part of the operation id: the same key on another host is another operation.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "http/head.hpp"

namespace once::gateway {

// Whether the peer is one of trusted_proxies.
enum class PeerTrust : std::uint8_t { client, trusted_proxy };

// The end of an element or a parameter: the position of the first character of `ends` outside quoted strings.
std::size_t end_of_part(std::string_view text, std::string_view ends);

// Whether this is a list of RFC 7239 elements, also with the unquoted values that proxies write (host=a:8080) and
// blanks around semicolons.
bool is_forwarded_list(std::string_view value);

// The setting same_hosts.
class HostNames {
 public:
  static constexpr std::string_view every_host = "*";

  HostNames() = default;
  // Each group is names separated by spaces, or every_host. The configuration was checked.
  explicit HostNames(const std::vector<std::string>& groups);

  // The normal form of the name, or the first name of its group; every_host if all hosts are the same.
  std::string_view name_of(std::string_view host, std::string& scratch) const;
  bool all_same() const { return all_same_; }

 private:
  std::map<std::string, std::string, std::less<>> first_of_;  // by normal form
  bool all_same_ = false;
};

// Holds views of the head, the names and itself.
class AskedHost {
 public:
  // The value for requests without Host, which HTTP/1.0 allows. No Host contains a blank.
  static constexpr std::string_view no_host = " ";

  // A client can put anything into X-Forwarded-Host and Forwarded, so they are used only from a trusted proxy.
  AskedHost(const http::RequestHead& head, const HostNames& names, PeerTrust peer);
  AskedHost(const AskedHost&) = delete;
  AskedHost& operator=(const AskedHost&) = delete;

  // Host, or no_host; X-Forwarded-Host; the hosts in Forwarded. All of them are compared, because it is unknown which
  // one a backend uses.
  const std::array<std::string_view, 3>& parts() const { return parts_; }

 private:
  void add_names(std::string& to, std::string_view list, const HostNames& names);
  void add_forwarded(std::string_view value, const HostNames& names);

  std::array<std::string_view, 3> parts_;
  std::string host_;
  std::string x_forwarded_;
  std::string forwarded_;
  std::string scratch_;
};

}  // namespace once::gateway
