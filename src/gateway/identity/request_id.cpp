#include "gateway/identity/request_id.hpp"

#include <algorithm>

#include "base/bytes.hpp"

namespace once::gateway {

namespace {

constexpr std::size_t max_request_id = 128;

// Only characters that are safe in logs and in a header of every reply.
bool usable_request_id(std::string_view id) {
  if (id.empty() || id.size() > max_request_id) return false;
  return std::ranges::all_of(id, [](char c) { return c > 0x20 && c < 0x7f && c != '"' && c != '\\'; });
}

}  // namespace

void append_id_of(const http::RequestHead& head, Random& random, std::string& out) {
  const auto given = head.find("X-Request-Id");
  if (given && usable_request_id(*given)) {
    out.append(*given);
  } else {
    append_hex(out, random.nonce().view());
  }
}

}  // namespace once::gateway
