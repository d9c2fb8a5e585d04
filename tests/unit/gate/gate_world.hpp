// What tests of a gate share: one that is open, and requests for it.
#pragma once

#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <once/gate.hpp>

#include "tests/unit/support/temporary_folder.hpp"

namespace once::gate {

// With a secret of its own, in a folder that goes with the test.
class GateTest : public testing::Test {
 protected:
  Options options(std::vector<Field> settings = {{"store", "memory:"}}) const {
    settings.push_back({"data_dir", folder_.path()});
    settings.push_back({"defaults.caller_missing", "anonymous"});
    return {.settings = std::move(settings), .logging = Logging::off};
  }
  Gate open(std::vector<Field> settings = {{"store", "memory:"}}) const {
    auto opened = Gate::open(options(std::move(settings)));
    if (!opened) throw std::runtime_error(opened.error().detail);
    return std::move(*opened);
  }

  // For stores that are shared, which need one.
  std::string secret_file() const {
    std::string path = folder_.path() + "/secret-of-all";
    std::ofstream(path) << "0123456789abcdef0123456789abcdef\n";
    return path;
  }

  static Request request(std::string key = "k", std::string body = "{}") {
    return {.method = "POST",
            .target = "/payments",
            .fields = {{"Host", "api.example"}, {"Idempotency-Key", std::move(key)}},
            .body = std::move(body),
            .peer = "192.0.2.1"};
  }
  static Response made(std::string body = "done") {
    return {.status = 201, .fields = {{"Content-Type", "text/plain"}}, .body = std::move(body)};
  }
  static std::string field(const std::vector<Field>& fields, std::string_view name) {
    for (const Field& each : fields) {
      if (each.name == name) return each.value;
    }
    return "(none)";
  }

  TemporaryFolder folder_;
};

}  // namespace once::gate
