// A store behind a server, by the scheme of its URL.
#pragma once

#include <memory>
#include <string>

#include "base/error.hpp"
#include "base/log.hpp"
#include "store/server/server_store.hpp"
#include "store/server/settings.hpp"

namespace once {

// Null: it is a store of another kind. An error is one that does not mend itself, as each store's open() says.
Result<std::unique_ptr<ServerStore>> open_server(const std::string& url, const ServerSettings& settings,
                                                 const Log& log);

// Whether the URL is one that open_server() can work with, as far as that is known without a server: its options and
// their values, and that the files are there which they name. The error repeats no value of it.
Result<void> check_server(const std::string& url);

}  // namespace once
