// Which namespaces each layer imports. A folder has the namespace of its name, and a layer uses the names of the layers
// below without a prefix; http, the stores, the library and the client are always qualified. Plain `once::` is the
// public API.
#pragma once

namespace once {

namespace base {}

namespace core {
using namespace base;
}

namespace client {
using namespace core;
}

namespace store {
using namespace core;
}

namespace memory {
using namespace store;
}

namespace journal {
using namespace store;
}

namespace redis {
using namespace store;
}

namespace postgres {
using namespace store;
}

namespace mysql {
using namespace store;
}

namespace guard {
using namespace store;
}

namespace http {
using namespace core;
}

namespace gateway {
using namespace store;
}

namespace claims {
using namespace gateway;
}

namespace admin {
using namespace claims;
}

namespace config {
using namespace admin;
}

namespace gate {
using namespace config;
}

namespace abi {
using namespace gate;
}

namespace cli {
using namespace config;
}

namespace sim {
using namespace config;
using namespace memory;
using namespace journal;
}  // namespace sim

namespace bench {
using namespace sim;
}

}  // namespace once
