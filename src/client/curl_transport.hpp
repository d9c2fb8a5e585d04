// One try over HTTP/1.1 with libcurl. Only curl_transport.cpp uses curl.
//
// Every try uses a new connection. On a reused one, a server that closes it as the request goes out would cause an
// unknown outcome, and curl itself would silently send the request again.
#pragma once

#include "client/transport.hpp"

namespace once::client {

class CurlTransport final : public Transport {
 public:
  CurlTransport();

  Tried perform(const Try& what, const std::stop_token& stop) override;
  std::string refusal(const Request& request) const override;
};

}  // namespace once::client
