// The settings of the claims API. config/ fills them in.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "base/clock.hpp"

namespace once::claims {

struct ClaimsToken {
  std::string tenant;
  std::string file;
  std::string token;  // read from its file at the start; never logged
};

struct ClaimsSettings {
  std::string listen = "off";  // or HOST:PORT, or unix:PATH
  std::vector<ClaimsToken> tokens;
  std::size_t max_body = std::size_t{1} << 20U;
  std::size_t max_progress = std::size_t{1} << 20U;  // of one claim; as max_body
  std::size_t max_connections = 1000;
  std::size_t max_waiting = 500;
};

}  // namespace once::claims
