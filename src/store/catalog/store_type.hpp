// Describes a kind of store: one row of the catalogue (catalog.hpp). Each store's folder defines its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "store/journal/settings.hpp"
#include "store/memory/memory_store.hpp"
#include "store/server/server_store.hpp"
#include "store/server/settings.hpp"
#include "store/store.hpp"

namespace once::store {

// The settings of all stores; each store uses its own.
struct StoreSettings {
  memory::MemoryLimits memory;
  journal::JournalSettings journal;
  std::string folder;   // used if the URL names none; may be empty only if it does
  Duration patience{};  // how long to wait for a store that another process has open
  ServerSettings server;
  std::vector<std::string> sealing_secrets;  // if not empty, outcomes are encrypted with the first one
};

struct StorePorts {
  const Clock& clock;
  const Log& log;
};

// The tables and functions of a store in a database, which gateways do not create.
struct StoreSchema {
  std::string_view server;  // "MySQL and MariaDB"
  std::string (*script)();
  // The same without stored procedures, for servers that have none. Null: no such schema.
  std::string (*plain_script)() = nullptr;
  // Creates the schema or upgrades the revision before. Safe to repeat. Returns a text that says what was done.
  Result<std::string> (*apply)(const std::string& url, const ServerSettings& settings);
};

// What follows the scheme in a URL.
enum class StorePlace : std::uint8_t {
  none,    // memory:
  folder,  // journal:FOLDER
  server,  // redis://…, parsed by server/store_url.hpp
};

struct StoreType {
  using Open = Result<std::unique_ptr<Store>>(const std::string& url, const StoreSettings& settings,
                                              const StorePorts& ports);
  using Connect = Result<std::unique_ptr<ServerStore>>(const std::string& url, const ServerSettings& settings,
                                                       const Log& log);

  std::string_view name;                     // the usual scheme, also used by `once schema`
  std::string_view other_scheme;             // an equivalent scheme, or empty
  std::string_view form;                     // of its URLs, for help texts
  std::array<std::string_view, 2> settings;  // its groups of settings: "journal", "server"
  StorePlace place = StorePlace::none;
  Durable durable = Durable::no;
  Shared shared = Shared::no;

  // One of the two is set: for a store in this process, or on a server. Errors are permanent.
  Open* open = nullptr;
  Connect* connect = nullptr;
  // Checks a URL without connecting: its options, their values and the files that they name. The error contains no
  // values of the URL. Null: nothing to check.
  Result<void> (*check)(const std::string& url) = nullptr;
  // The limit of its records in bytes. Null: no limit here.
  std::size_t (*capacity)(const StoreSettings& settings) = nullptr;
  const StoreSchema* schema = nullptr;  // null: it needs none

  bool has_scheme(std::string_view scheme) const {
    return scheme == name || (!other_scheme.empty() && scheme == other_scheme);
  }
  bool takes(std::string_view group) const { return group == settings[0] || group == settings[1]; }
};

}  // namespace once::store
