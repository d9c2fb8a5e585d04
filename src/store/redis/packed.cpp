#include "store/redis/packed.hpp"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "store/redis/cluster.hpp"

namespace once::redis {

namespace {

constexpr std::uint64_t version = 3;
constexpr std::uint64_t oldest_version = version - 1;  // the same format without labels
constexpr std::uint64_t versions_end = 32;
constexpr std::uint64_t flag_outcome = 1;
constexpr std::uint64_t flag_labels = 2;
constexpr std::uint64_t never = std::uint64_t{1} << 52U;

// The scripts use these numbers.
static_assert(static_cast<int>(State::started) == 0 && static_cast<int>(State::succeeded) == 1 &&
              static_cast<int>(State::failed) == 2 && static_cast<int>(State::unknown) == 3 &&
              static_cast<int>(State::tombstone) == 4);
static_assert(static_cast<int>(BodyKept::yes) == 0 && static_cast<int>(BodyKept::no) == 1 &&
              static_cast<int>(BodyKept::in_chunks) == 2);
static_assert(static_cast<int>(OnUnknown::retry) == 0 && static_cast<int>(OnUnknown::takeover) == 1 &&
              static_cast<int>(OnUnknown::hold) == 2);

std::uint64_t read_number(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t number = 0;
  for (const char byte : bytes.substr(at, size)) number = number << 8U | static_cast<std::uint8_t>(byte);
  return number;
}

void append_integer(std::string& out, std::uint64_t number, unsigned size) {
  for (unsigned shift = size * 8; shift > 0; shift -= 8) out.push_back(static_cast<char>(number >> (shift - 8)));
}

Time read_time(std::string_view bytes, std::size_t at) {
  const std::uint64_t ms = read_number(bytes, at, 8);
  return ms >= never ? Time::max() : Time(Duration(static_cast<std::int64_t>(ms)));
}

void append_duration(std::string& out, Duration duration) {
  append_integer(out, std::min(static_cast<std::uint64_t>(std::max<std::int64_t>(duration.count(), 0)), never), 8);
}

// The oldest version that can read and write this record.
std::uint64_t version_needed(std::string_view packed) {
  const std::uint64_t written = read_number(packed, 0, 1);
  const std::uint64_t needed = read_number(packed, 2, 1) >> 4U;
  return written <= version || needed == 0 ? written : needed;
}

bool is_version(std::uint64_t written) {
  return written >= oldest_version && written < versions_end;
}

// An unknown value from a newer version means a body that this version cannot read.
BodyKept kept_in(std::string_view packed) {
  const std::uint64_t kept = read_number(packed, 2, 1) & 15U;
  return kept <= static_cast<std::uint64_t>(BodyKept::in_chunks) ? static_cast<BodyKept>(kept) : BodyKept::no;
}

bool readable(std::string_view packed) {
  return is_version(read_number(packed, 0, 1)) && version_needed(packed) <= version;
}

}  // namespace

std::string why_unreadable(std::string_view packed) {
  const std::uint64_t written = packed.size() < 3 ? 0 : read_number(packed, 0, 1);
  if (written > 0 && written < oldest_version) {
    return fmt::format(
        "the record of this key has version {}; this program supports {} and {}: use the version of Once in between "
        "until it has expired",
        written, oldest_version, version);
  }
  if (!is_version(written) || readable(packed)) return "the value of this key is not a record of Once";
  return fmt::format(
      "the record of this key has version {} and needs a program that supports version {}; this program supports {}: "
      "upgrade it",
      written, version_needed(packed), version);
}

std::optional<Record> unpack_record(std::string_view packed) {
  if (packed.size() < head_size) return std::nullopt;
  if (!readable(packed)) return std::nullopt;
  const std::uint64_t state = read_number(packed, 1, 1);
  const std::uint64_t before = read_number(packed, 21, 1);
  constexpr auto last = static_cast<std::uint64_t>(State::tombstone);
  if (state > last || before > last) return std::nullopt;
  Record record;
  record.state = static_cast<State>(state);
  record.body_kept = kept_in(packed);
  record.expires_at = read_time(packed, 4);
  record.lease_until = read_time(packed, 12);
  record.forget_at = read_time(packed, 98);
  record.previous_state = static_cast<State>(before);
  record.attempt = Attempt{static_cast<std::uint32_t>(read_number(packed, 22, 4))};
  record.fence = Fence{read_number(packed, 26, 8)};
  record.started_at = read_time(packed, 34);
  record.previous_started_at = read_time(packed, 42);
  std::copy_n(packed.begin() + 50, Nonce::size, record.nonce.bytes.begin());
  std::copy_n(packed.begin() + 66, Fingerprint::size, record.fingerprint.bytes.begin());
  if ((read_number(packed, 3, 1) & flag_outcome) != 0) {
    record.outcome = std::make_shared<const std::string>(packed.substr(head_size + labels_in(packed).size));
  }
  return record;
}

bool on_replicas(std::string_view packed) {
  return packed.size() >= head_size && read_number(packed, 1, 1) == static_cast<std::uint64_t>(State::succeeded) &&
         read_number(packed, 20, 1) == 2;
}

PackedLabels labels_in(std::string_view packed) {
  PackedLabels labels;
  if (packed.size() <= head_size || (read_number(packed, 3, 1) & flag_labels) == 0) return labels;
  const std::string_view all = packed.substr(head_size);
  const std::size_t tenant = static_cast<std::uint8_t>(all.front());
  labels.tenant = all.substr(1, tenant);
  const std::size_t at = std::min(all.size(), 1 + tenant);
  const std::size_t route = at < all.size() ? static_cast<std::uint8_t>(all[at]) : 0;
  labels.route = all.substr(std::min(all.size(), at + 1), route);
  labels.size = std::min(all.size(), at + 1 + route);
  return labels;
}

std::string packed_labels(std::string_view tenant, std::string_view route) {
  std::string out;
  if (tenant.empty() && route.empty()) return out;
  for (const std::string_view label : {tenant, route}) {
    const std::string_view kept = label.substr(0, 255);
    out.push_back(static_cast<char>(kept.size()));
    out.append(kept);
  }
  return out;
}

void append_chunks_key(std::string& out, std::string_view prefix, std::string_view key) {
  if (has_hash_tag(prefix)) {
    out.append(key).append(":chunks");
  } else {
    out.append(prefix).append("{").append(key).append("}");
  }
}

std::optional<Answered> read_answer(std::string_view reply) {
  constexpr std::size_t prologue = 9;
  if (reply.size() < prologue) return std::nullopt;
  const auto answer = static_cast<Answer>(reply.front());
  switch (answer) {
    case Answer::written:
    case Answer::own:
    case Answer::ended:
    case Answer::stands:
    case Answer::nothing:
    case Answer::lost:
    case Answer::missing:
    case Answer::late:
    case Answer::unreadable:
      return Answered{.answer = answer, .clock_us = read_number(reply, 1, 8), .record = reply.substr(prologue)};
  }
  return std::nullopt;
}

std::size_t terms_size(Verb verb) {
  const Op op{.verb = verb};
  std::string terms;
  append_terms(terms, op, {});
  return terms.size();
}

void append_terms(std::string& out, const Op& op, const CallTerms& terms) {
  switch (op.verb) {
    case Verb::claim:
      append_integer(out, static_cast<std::uint64_t>(op.terms.on_unknown), 1);
      append_integer(out, terms.confirm ? 1 : 0, 1);
      append_duration(out, terms.claims_until.time_since_epoch());
      append_duration(out, op.terms.takeover_after);
      append_duration(out, op.terms.lease);
      append_duration(out, op.terms.ttl);
      append_duration(out, op.terms.tombstone);
      out.append(op.nonce.view()).append(op.fingerprint.view());
      return;
    case Verb::renew:
      append_duration(out, op.terms.lease);
      out.append(op.nonce.view());
      return;
    case Verb::finish:
    case Verb::resolve:
      append_integer(out, static_cast<std::uint64_t>(op.final_state), 1);
      append_integer(out, static_cast<std::uint64_t>(op.body_kept), 1);
      append_integer(out, op.outcome ? 1 : 0, 1);
      append_integer(out,
                     op.verb == Verb::resolve ? static_cast<std::uint64_t>(op.seen_state)
                     : terms.confirm          ? 1
                                              : 0,
                     1);
      append_duration(out, op.terms.ttl);
      out.append(op.nonce.view());
      return;
    case Verb::release: out.append(op.nonce.view()); return;
    case Verb::forget:
      append_integer(out, static_cast<std::uint64_t>(op.seen_state), 1);
      out.append(op.nonce.view());
      return;
    case Verb::append:
      append_integer(out, op.chunk, 4);
      out.append(op.nonce.view());
      return;
    case Verb::read:
      append_integer(out, op.waits == Waits::yes ? 1 : 0, 1);
      append_integer(out, terms.confirm ? 1 : 0, 1);
      append_integer(out, op.chunk, 4);
      append_integer(out, std::min<std::uint64_t>(op.chunk_bytes, never), 8);
      return;
    case Verb::lookup:
      append_integer(out, op.waits == Waits::yes ? 1 : 0, 1);
      append_integer(out, terms.confirm ? 1 : 0, 1);
      return;
  }
  ONCE_ASSERT(false);
}

}  // namespace once::redis
