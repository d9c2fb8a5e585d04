// Which host a request asks for, as far as keys are concerned: a key that was used with one host is another one with
// every other.
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

// Whether whoever connected is one of trusted_proxies.
enum class PeerTrust : std::uint8_t { client, trusted_proxy };

// The end of an element or a parameter: the first of `ends` that is not in a quoted string.
std::size_t end_of_part(std::string_view text, std::string_view ends);

// Whether this is a list of elements as RFC 7239 has them, with unquoted values taken as proxies write them
// (host=a:8080) and blanks around a semicolon.
bool is_forwarded_list(std::string_view value);

// The setting same_hosts.
class HostNames {
 public:
  static constexpr std::string_view every_host = "*";

  HostNames() = default;
  // Each group is names with spaces between them, or every_host. Config has checked them.
  explicit HostNames(const std::vector<std::string>& groups);

  // The normal form, or the first of its group; every_host if all hosts are the same.
  std::string_view name_of(std::string_view host, std::string& scratch) const;
  bool all_same() const { return all_same_; }

 private:
  std::map<std::string, std::string, std::less<>> first_of_;  // by normal form
  bool all_same_ = false;
};

// Holds views of the head, the names and itself.
class AskedHost {
 public:
  // HTTP/1.0 may leave Host out. No Host has a blank.
  static constexpr std::string_view no_host = " ";

  // A client may write what it likes into X-Forwarded-Host and Forwarded; a proxy knows what it was asked for.
  AskedHost(const http::RequestHead& head, const HostNames& names, PeerTrust peer);
  AskedHost(const AskedHost&) = delete;
  AskedHost& operator=(const AskedHost&) = delete;

  // Host, or no_host; X-Forwarded-Host; the hosts in Forwarded. All of them count, because which one a backend believes
  // is not known here: requests for one host have all of them in common.
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
