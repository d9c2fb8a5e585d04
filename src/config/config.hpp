// Every setting of the process as plain data. settings.hpp declares how each is written in YAML and on the command
// line; load.hpp reads the file; finish.hpp checks what belongs together. Nothing here has behaviour.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "core/policy.hpp"

namespace once {

enum class Environment : std::uint8_t { development, production };

// Where in the file something was said. Line 0: not from a file.
struct Where {
  std::string file;
  int line = 0;
  int column = 0;
};

// A backend, from a URL such as http://127.0.0.1:9000/base.
struct Upstream {
  enum class Scheme : std::uint8_t { http };

  std::string name;
  Scheme scheme = Scheme::http;
  std::string host;  // IPv6 without brackets
  std::uint16_t port = 80;
  std::string base_path;  // put before the request's path; "" or "/base", never with a trailing slash
  Where where;
};

struct Route {
  std::string path = "/**";          // literal segments, * or {name} for one, ** at the end for any rest
  std::optional<MethodSet> methods;  // which methods this route matches; absent: all
  std::string upstream;              // a name in Config::upstreams; finish() fills in the first
  Policy policy;
  Where where;
};

struct MemoryStoreSettings {
  std::size_t max_bytes = std::size_t{256} << 20U;
};

struct LogSettings {
  LogLevel level = LogLevel::info;
  LogFormat format = LogFormat::automatic;
  bool access = false;
};

struct Limits {
  std::size_t max_connections = 10'000;  // from clients, in the whole process
  std::size_t max_header_bytes = std::size_t{32} << 10U;
  std::size_t max_header_count = 100;
  std::size_t max_uri_bytes = std::size_t{8} << 10U;
};

// Of connections from clients; those of backends are in Policy::timeouts.
struct ClientTimeouts {
  Duration header = std::chrono::seconds(10);     // from the first byte of a request to the end of its header
  Duration body_idle = std::chrono::seconds(30);  // silence while a request body or a response is on its way
  Duration idle = std::chrono::seconds(75);       // between requests
  Duration drain = std::chrono::seconds(30);      // after SIGTERM: how long running requests may take to end
};

// Connections kept open to backends.
struct PoolSettings {
  std::size_t max_idle = 64;                          // per thread and upstream
  Duration idle_max = std::chrono::seconds(4);        // shorter than what servers commonly allow (5 s and more)
  Duration keyed_idle_max = std::chrono::seconds(1);  // keyed requests take no connection that idled longer
};

struct Config {
  std::string listen = "127.0.0.1:8080";
  std::string admin = "127.0.0.1:8081";  // "off": no admin interface
  unsigned threads = 0;                  // 0: one per core
  Environment environment = Environment::development;
  std::string store = "memory:";
  MemoryStoreSettings memory;
  std::string data_dir = "./once-data";
  std::string secret_file;
  std::string secret;                           // filled in by finish(); never logged
  std::string errors_base = "urn:once:error:";  // problem `type` = this + code
  std::vector<Upstream> upstreams;              // the first is the default one
  Policy defaults;
  std::vector<Route> routes;  // first match wins; finish() makes one for everything when there is none
  LogSettings log;
  Limits limits;
  ClientTimeouts timeouts;
  PoolSettings pool;
  Where defaults_where;
};

}  // namespace once
