// The head of a request as it goes to the backend: the client's fields byte for byte, less those of the connection
// and those that only Once may write, framed by us.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "http/head.hpp"

namespace once {

// What of the client's wish to speak on in another protocol goes on.
enum class UpgradeTo : std::uint8_t { nobody, backend };

struct ForwardedHead {
  std::string_view base_path;     // put before the target
  std::string_view authority;     // Host, if the client sent none
  std::string_view added_fields;  // "Name: value\r\n" each
  http::Framing framing;          // of the body as we send it
  UpgradeTo upgrade = UpgradeTo::nobody;
  bool forward_expect = false;  // the body is sent only as the client sends it
};

// Replaces the content of `out`.
void write_forwarded_head(std::string& out, const http::RequestHead& head, const ForwardedHead& as);

}  // namespace once
