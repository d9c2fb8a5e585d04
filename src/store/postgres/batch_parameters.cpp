// The parameters of each statement for a batch's operations, in the order of its text.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "core/decision.hpp"
#include "store/postgres/batch.hpp"

namespace once::postgres {

namespace {

// Labels are informative and indexed, and index entries have a size limit.
constexpr std::size_t longest_label = 200;

constexpr bool continues(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

// The length of the first UTF-8 character of `text`; 0: it is invalid.
std::size_t character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if ((first >= 0x20 && first < 0x7F) || first == '\t') return 1;  // a tab separates the route
  const std::size_t length = first >= 0xC2 && first < 0xE0   ? 2
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  if (length == 0 || text.size() < length || !std::ranges::all_of(text.substr(1, length - 1), continues)) return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool beyond = (first == 0xED && second >= 0xA0) || (first == 0xF4 && second >= 0x90);
  return overlong || beyond ? 0 : length;
}

// A text that the server always accepts: one refused byte would fail the whole batch.
std::string label(std::string_view text, bool unicode) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = character(text);
    const bool kept = length == 1 || (length > 1 && unicode);
    const std::string_view next = kept ? text.substr(0, length) : std::string_view("?");
    if (out.size() + next.size() > longest_label) break;
    out += next;
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::int64_t int8_of(std::size_t value) {
  return static_cast<std::int64_t>(std::min<std::size_t>(value, std::numeric_limits<std::int64_t>::max()));
}

bool is_of_chunks(Statement statement) {
  return statement == Statement::hold || statement == Statement::append || statement == Statement::read_chunks;
}

}  // namespace

Parameters Batch::parameters_of(const Sent& sent, const Connection& connection) const {
  Parameters out;
  if (sent.statement == Statement::hurry) return out;
  const bool unicode = connection.unicode();
  const auto array = [&](Type type, auto&& write) { out.array(type, sent.items, write); };
  const auto labels = [&] {
    array(Type::text, [&](Element& value, const Item& item) { value.bytes(label(item.op->tenant, unicode)); });
    array(Type::text, [&](Element& value, const Item& item) { value.bytes(label(item.op->route, unicode)); });
  };
  array(Type::bytea, [](Element& value, const Item& item) { value.bytes(item.op->id.view()); });
  const bool of_chunks = is_of_chunks(sent.statement);
  if (of_chunks) add_chunks(out, sent);
  if (of_chunks || sent.statement == Statement::read || sent.statement == Statement::wait) return out;
  if (sent.statement != Statement::claim) out.int2(static_cast<std::int16_t>(sent.locked));
  if (sent.statement == Statement::seize) {
    array(Type::bytea, [](Element& value, const Item& item) {
      value.bytes(item.op->verb == Verb::claim ? item.seen->nonce.view() : item.op->nonce.view());
    });
    return out;
  }
  array(Type::bytea, [](Element& value, const Item& item) { value.bytes(item.op->nonce.view()); });
  switch (sent.statement) {
    case Statement::claim:
    case Statement::take:
      array(Type::bytea, [](Element& value, const Item& item) { value.bytes(item.op->fingerprint.view()); });
      array(Type::interval, [](Element& value, const Item& item) { value.length(item.op->terms.lease); });
      array(Type::interval, [](Element& value, const Item& item) { value.length(item.op->terms.ttl); });
      array(Type::interval, [](Element& value, const Item& item) { value.length(item.op->terms.tombstone); });
      labels();
      if (sent.statement == Statement::take) add_seen(out, sent.items);
      if (sent.statement == Statement::claim) out.time(connection.clock().latest_at(until_));
      break;
    case Statement::renew:
      array(Type::interval, [](Element& value, const Item& item) { value.length(item.op->terms.lease); });
      break;
    case Statement::finish:
    case Statement::resolve:
      array(Type::int2, [](Element& value, const Item& item) { value.state(item.op->final_state); });
      array(Type::int2,
            [](Element& value, const Item& item) { value.int2(static_cast<std::int16_t>(item.op->body_kept)); });
      array(Type::bytea,
            [](Element& value, const Item& item) { item.op->outcome ? value.bytes(*item.op->outcome) : value.null(); });
      array(Type::interval, [](Element& value, const Item& item) { value.length(item.op->terms.ttl); });
      if (sent.statement == Statement::finish) break;
      array(Type::int2, [](Element& value, const Item& item) { value.state(item.op->seen_state); });
      break;
    case Statement::forget:
      array(Type::int2, [](Element& value, const Item& item) { value.state(item.op->seen_state); });
      break;
    case Statement::seize:
    case Statement::release:
    case Statement::read:
    case Statement::hold:
    case Statement::append:
    case Statement::read_chunks:
    case Statement::wait:
    case Statement::sweep:
    case Statement::hurry:
    case Statement::page:
    case Statement::count:
    case Statement::page_started:
    case Statement::page_failed:
    case Statement::page_unknown:
    case Statement::count_started:
    case Statement::count_failed:
    case Statement::count_unknown:
    case Statement::estimate: break;
  }
  return out;
}

void Batch::add_chunks(Parameters& out, const Sent& sent) {
  const auto array = [&](Type type, auto&& write) { out.array(type, sent.items, write); };
  const bool appends = sent.statement == Statement::append;
  const bool owned = appends || sent.statement == Statement::hold;
  if (owned) array(Type::bytea, [](Element& value, const Item& item) { value.bytes(item.op->nonce.view()); });
  if (sent.statement == Statement::hold) return;
  array(Type::int8, [](Element& value, const Item& item) { value.int8(item.op->chunk); });
  if (appends) {
    array(Type::bytea, [](Element& value, const Item& item) {
      value.bytes(item.op->outcome ? std::string_view(*item.op->outcome) : std::string_view());
    });
  } else {
    array(Type::int8, [](Element& value, const Item& item) { value.int8(int8_of(item.op->chunk_bytes)); });
  }
}

// Adds the claimed record and the row that was read: the row is taken over only if it is unchanged.
void Batch::add_seen(Parameters& out, const Items& items) {
  const auto array = [&](Type type, auto&& write) { out.array(type, items, write); };
  const auto next = [](const Item& item) {
    const Op& op = *item.op;
    return claimed(item.seen_is_none ? nullptr : &*item.seen, op.fingerprint, op.nonce, op.terms, op.now);
  };
  array(Type::int4,
        [&](Element& value, const Item& item) { value.int4(static_cast<std::int32_t>(next(item).attempt)); });
  array(Type::int2, [&](Element& value, const Item& item) { value.state(next(item).previous_state); });
  array(Type::timestamptz, [&](Element& value, const Item& item) {
    item.seen_is_none ? value.null() : value.time(next(item).previous_started_at);
  });
  array(Type::int8, [](Element& value, const Item& item) { value.int8(static_cast<std::int64_t>(item.seen->fence)); });
  array(Type::int2, [](Element& value, const Item& item) { value.state(item.seen->state); });
  array(Type::timestamptz, [](Element& value, const Item& item) { value.time(item.seen->expires_at); });
}

}  // namespace once::postgres
