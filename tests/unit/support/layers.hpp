// Tests are in the namespace of what they test. What they share is in `once::support`, which all of them see and which
// sees everything.
#pragma once

#include "base/layers.hpp"

namespace once {

namespace support {
using namespace sim;
using namespace redis;
using namespace postgres;
using namespace mysql;
}  // namespace support

namespace base {
using namespace support;
}

namespace contract {
using namespace support;
}

namespace redis_test {
using namespace support;
}

namespace mysql_test {
using namespace support;
}

namespace sql_test {
using namespace support;
}

}  // namespace once
