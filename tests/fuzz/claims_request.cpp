// Requests of the claims API: what is taken is what was sent, byte for byte, and valid JSON by another parser's
// judgement.
#include <string>

#include "claims/json_members.hpp"
#include "claims/requests.hpp"
#include "core/json_canonical.hpp"
#include "tests/fuzz/input.hpp"

namespace {

constexpr once::base::Duration longest_wait = std::chrono::minutes(1);

bool is_part_of(std::string_view part, std::string_view whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

void check_members(std::string_view bytes) {
  const auto members = once::claims::json_members(bytes);
  if (!members) return;
  ONCE_ASSERT(once::claims::is_json_value(bytes));
  for (const once::claims::JsonMember& member : *members) {
    ONCE_ASSERT(is_part_of(member.value, bytes) && once::claims::is_json_value(member.value));
  }
}

void check_named(const once::claims::Read<once::claims::Named>& name) {
  if (!name) {
    ONCE_ASSERT(!name.error().empty());
    return;
  }
  ONCE_ASSERT(!name->scope.empty() && name->scope.size() <= 255);
  ONCE_ASSERT(name->kind == once::claims::KeyKind::inputs || (!name->key.empty() && name->key.size() <= 255));
  ONCE_ASSERT(name->wait >= once::base::Duration() && name->wait <= longest_wait);
}

}  // namespace

FUZZ(bytes) {
  // Everything that has a canonical form is JSON; not the other way round, for a name may be there twice.
  if (once::core::canonical_json(bytes)) ONCE_ASSERT(once::claims::is_json_value(bytes));
  check_members(bytes);
  check_named(once::claims::read_lookup(bytes, longest_wait));
  check_named(once::claims::read_lookup_query(bytes, longest_wait));
  if (const auto claim = once::claims::read_claim(bytes, longest_wait)) {
    check_named(claim->name);
    ONCE_ASSERT(claim->terms.owner == once::core::Owner::outside && claim->terms.lease < claim->terms.ttl);
    ONCE_ASSERT(claim->terms.lease >= std::chrono::seconds(1));
  }
  if (const auto ended = once::claims::read_succeed(bytes)) {
    ONCE_ASSERT(is_part_of(ended->value, bytes) && once::claims::is_json_value(ended->value));
  }
}
