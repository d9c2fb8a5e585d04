// The version of Once's schema in a SQL database, and whether a program can use it. A schema has a revision. A program
// has the revision that it was written for, and a schema names the oldest program that can use it. So gateways of two
// versions can run side by side: upgrade the schema first, then the gateways one by one; gateways can be rolled back
// without the schema. Features that older programs do not understand are used only after the schema excludes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/layers.hpp"

namespace once::store {

struct SchemaVersion {
  std::uint64_t revision = 0;        // 0: there is none
  std::uint64_t oldest_program = 0;  // stored as `version`, which programs of revision 1 compare with their own
};

enum class SchemaFits : std::uint8_t { yes, too_old, too_new };

inline SchemaFits fits(const SchemaVersion& found, const SchemaVersion& own) {
  if (found.oldest_program > own.revision) return SchemaFits::too_new;
  return found.revision < own.revision ? SchemaFits::too_old : SchemaFits::yes;
}

// The error text for a schema that this program cannot use.
inline std::string why_not(const SchemaVersion& found, const SchemaVersion& own, std::string_view how_to_apply) {
  if (found.oldest_program > own.revision) {
    return fmt::format(
        "the schema of Once in the database has revision {} and needs a program for revision {} or newer; this one is "
        "for {}: use a newer program",
        found.revision, found.oldest_program, own.revision);
  }
  return fmt::format("the schema of Once in the database has revision {}, this program needs {}: {}", found.revision,
                     own.revision, how_to_apply);
}

// The result of applying the schema, as text.
inline std::string applied(const SchemaVersion& before, const SchemaVersion& own) {
  if (before.revision > own.revision) {
    return fmt::format("schema revision {} is there, newer than this program's {}, which can use it", before.revision,
                       own.revision);
  }
  if (before.revision == own.revision) return fmt::format("schema revision {} was there already", own.revision);
  if (before.revision == 0) return fmt::format("schema revision {} made", own.revision);
  return fmt::format("schema brought from revision {} to {}", before.revision, own.revision);
}

}  // namespace once::store
