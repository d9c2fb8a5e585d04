#include "gateway/access_line.hpp"

#include <string>

#include "base/text.hpp"

namespace once {

void AccessLine::write(const Log& log, std::string_view shadow) const {
  const std::string id = operation ? to_hex(operation->view().substr(0, 8)) : std::string();
  log.info("request", {{"request", request_id},
                       {"method", method},
                       {"path", path},
                       {"status", status},
                       {"result", name_of(ending)},
                       {"ms", static_cast<double>(spent.count()) / 1e6},
                       {"operation", id},
                       {"attempt", static_cast<std::uint32_t>(attempt)},
                       {"shadow", shadow},
                       {"trace", trace}});
}

}  // namespace once
