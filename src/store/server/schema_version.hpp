// The version of Once's schema in a SQL database, and whether a program can use it. A schema stores its revision, and
// the oldest revision whose programs can use it; applying the schema sets that to the revision before. So gateways of
// two versions can run side by side: upgrade the schema first, then the gateways one by one. Gateways can be rolled
// back while the schema stays. Only a schema of the revision before can be upgraded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/layers.hpp"

namespace once::store {

struct SchemaVersion {
  std::uint64_t revision = 0;        // 0: there is none
  std::uint64_t oldest_program = 0;  // stored as `version`
};

enum class SchemaFits : std::uint8_t {
  yes,
  not_yet,  // there is none, or that of the revision before
  too_old,
  too_new
};

inline SchemaFits fits(const SchemaVersion& found, std::uint64_t own) {
  if (found.oldest_program > own) return SchemaFits::too_new;
  if (found.revision >= own) return SchemaFits::yes;
  return found.revision == 0 || found.revision + 1 == own ? SchemaFits::not_yet : SchemaFits::too_old;
}

// Whether applying this program's schema changes something. A schema of this revision may still name an older program.
inline bool needs_apply(const SchemaVersion& found, std::uint64_t own) {
  if (found.revision == own) return found.oldest_program + 1 < own;
  return fits(found, own) == SchemaFits::not_yet;
}

// The error text for a schema that this program cannot use.
inline std::string why_not(const SchemaVersion& found, std::uint64_t own, std::string_view how_to_apply) {
  if (found.oldest_program > own) {
    return fmt::format(
        "the schema of Once in the database has revision {} and needs a program for revision {} or newer; this one is "
        "for {}: use a newer program",
        found.revision, found.oldest_program, own);
  }
  if (fits(found, own) == SchemaFits::too_old) {
    return fmt::format(
        "the schema of Once in the database has revision {}; this program needs {} and can upgrade only revision {}: "
        "apply the schema of each version in between first, with its own program",
        found.revision, own, own - 1);
  }
  return fmt::format("the schema of Once in the database has revision {}, this program needs {}: {}", found.revision,
                     own, how_to_apply);
}

// The result of applying the schema, as text.
inline std::string applied(const SchemaVersion& before, std::uint64_t own) {
  if (before.revision > own) {
    return fmt::format("schema revision {} is there, newer than this program's {}, which can use it", before.revision,
                       own);
  }
  if (before.revision == own && needs_apply(before, own)) {
    return fmt::format("schema revision {} was there already; the oldest program that may use it is now that of {}",
                       own, own - 1);
  }
  if (before.revision == own) return fmt::format("schema revision {} was there already", own);
  if (before.revision == 0) return fmt::format("schema revision {} made", own);
  return fmt::format("schema brought from revision {} to {}", before.revision, own);
}

}  // namespace once::store
