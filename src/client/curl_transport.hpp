// One try over HTTP/1.1 with libcurl. Only this folder's curl_transport.cpp knows curl.
//
// Every try has a connection of its own. On one that was kept, a server that closes it just as the request goes out
// would look like an outcome nobody knows, and curl itself would send the request again without telling.
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
