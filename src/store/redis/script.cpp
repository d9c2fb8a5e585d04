#include "store/redis/script.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "store/redis/packed.hpp"
#include "store/redis/reply.hpp"

namespace once::redis {

namespace {

// Every script that finds a record first checks whether it can read it, like readable() in packed.cpp.
//
// The beginning of every script. Redis deletes a key only after its time, so the record exists as long as it is needed,
// and `now` decides whether it is valid. Strings are cut at the offsets of packed.hpp plus one.
constexpr std::string_view read_clock = R"lua(
local t = redis.call('TIME')
local us = t[1] * 1000000 + t[2]
local now = (us - us % 1000) / 1000
)lua";
constexpr std::string_view read_value = "local v = redis.call('GET', KEYS[1])";
// A full Redis (maxmemory) refuses a script whose first write takes memory, but not later writes of a script that began
// with one that does not. GETEX without options reads like GET and counts as such a write, so owners' writes are
// accepted however full Redis is: the outcome of a request in progress is never refused. Claims begin with GET, and may
// be refused.
constexpr std::string_view read_value_as_owner = "local v = redis.call('GETEX', KEYS[1])";

// Handles the list of chunks (append_chunks_key() in packed.cpp) if the record has one. These scripts do not declare
// its key, so that ordinary operations have one key. While its slot moves, Redis may refuse access; then the list
// expires by itself.
constexpr std::string_view drop_chunks = "local keep_chunks_until";
constexpr std::string_view tend_chunks = R"lua(
if flags % 8 >= 4 then
  local list = string.find(KEYS[1], '^[^{]*{[^}]+}') and KEYS[1] .. ':chunks' or
    string.sub(KEYS[1], 1, -65) .. '{' .. KEYS[1] .. '}'
  if keep_chunks_until then redis.pcall('PEXPIREAT', list, keep_chunks_until) else redis.pcall('UNLINK', list) end
end
)lua";

// Whether the claim may be made: decide() in core/decision.hpp as a single condition; a test compares both. The fence
// is the clock, unless that went back. If replicas are waited for, an outcome that is about to be returned is written
// again, because another gateway's write may not have reached them and WAIT only covers writes of its own connection;
// not if it is marked as being on the replicas. That write must succeed on a full Redis, so it begins with GETEX. A
// late copy of a claim that has ended (is_ended_claim() in verbs.hpp) changes nothing, and neither does one that
// arrives after its deadline (ServerClock).
constexpr std::string_view claim = R"lua(
local on_unknown, confirm, until_ms, takeover, lease, ttl, tombstone, owner =
  struct.unpack('>BBI8I8I8I8I8c48', ARGV[1])
local attempt, fence, before, before_at, waited, flags = 1, us, 3, 0, 0, 0
if v then
  local version, state, old_kept, old_flags, old_expires, old_lease, old_waited, _, old_attempt, old_fence, old_start =
    struct.unpack('>BBBBI8I8BBI4I8I8', v)
  flags = old_flags
  if version < 2 or version > 3 and (version > 31 or old_kept < 16 or old_kept > 63) then
    return struct.pack('>c1I8', 'U', us) .. string.sub(v, 1, 3)
  end
  if old_fence >= us then fence = old_fence + 1 end
  local live = state == 0 and now < old_lease
  if not live and now >= old_expires and now < struct.unpack('>I8', v, 99) then
    return struct.pack('>c1I8', 'S', us) .. string.sub(v, 1, 106)
  end
  local nonce = string.sub(v, 51, 66)
  local ended = nonce == string.sub(owner, 9, 16) .. string.sub(owner, 1, 8)
  if live or now < old_expires then
    if state == 0 and string.sub(v, 51, 98) == owner then
      if confirm == 1 then redis.call('GETEX', KEYS[1]) redis.call('SET', KEYS[1], v, 'KEEPTTL') end
      return struct.pack('>c1I8', 'O', us) .. v
    end
    local adrift = state == 3 or state == 0 and not live
    local free = state == 2 or adrift and (on_unknown == 0 or on_unknown == 1 and old_start + takeover <= now)
    if not free or string.sub(v, 67, 98) ~= string.sub(owner, 17) then
      if confirm == 1 and state == 1 and old_waited ~= 2 then redis.call('GETEX', KEYS[1]) redis.call('SET', KEYS[1], v, 'KEEPTTL') end
      return struct.pack('>c1I8', 'S', us) .. v
    end
    ended = ended or state ~= 0 and nonce == string.sub(owner, 1, 16)
    attempt, before, before_at, waited = old_attempt + 1, state == 0 and 3 or state, old_start, old_waited
  end
  if ended then return struct.pack('>c1I8', 'E', us) .. v end
end
if now > until_ms then return struct.pack('>c1I8', 'T', us) end
local lease_until, expires, labels = now + lease, now + ttl, ARGV[2]
local forget = expires + tombstone
local record = struct.pack('>BBBBI8I8BBI4I8I8I8', 3, 0, 0, labels == '' and 0 or 2, expires, lease_until, waited, before,
  attempt, fence, now, before_at) .. owner .. struct.pack('>I8', forget) .. labels
redis.call('SET', KEYS[1], record, 'PXAT', math.max(forget, lease_until))
)lua";
constexpr std::string_view claim_end = R"lua(
if attempt == 1 and fence == us then return us end
return struct.pack('>c1I8', 'W', us) .. record
)lua";

// The common part of renew, finish, release and append: the record must be valid and have the owner's nonce.
constexpr std::string_view owners_only = R"lua(
if not v then return struct.pack('>c1I8', 'L', us) end
local version, state, old_kept, flags, expires, lease_until, waited = struct.unpack('>BBBBI8I8B', v)
if version < 2 or version > 3 and (version > 31 or old_kept < 16 or old_kept > 63) then
  return struct.pack('>c1I8', 'U', us) .. string.sub(v, 1, 3)
end
if expires <= now and not (state == 0 and now < lease_until) or string.sub(v, 51, 66) ~= nonce then
  return struct.pack('>c1I8', 'L', us)
end
local forget = struct.unpack('>I8', v, 99)
)lua";

// Notifies waiters with the key's hex, on the channel of the key's prefix. After the write, because a script that could
// not write must not notify. If publishing is not permitted, the write still counts.
constexpr std::string_view tell = R"lua(
if waited == 1 then redis.pcall('PUBLISH', string.sub(KEYS[1], 1, -65) .. 'ended', string.sub(KEYS[1], -64)) end
)lua";

constexpr std::string_view renew_terms = "local lease, nonce = struct.unpack('>I8c16', ARGV[1])";
constexpr std::string_view renew = R"lua(
if state ~= 0 then return struct.pack('>c1I8', 'L', us) end
lease_until = now + lease
redis.call('SET', KEYS[1], string.sub(v, 1, 12) .. struct.pack('>I8', lease_until) .. string.sub(v, 21),
  'PXAT', math.max(forget, lease_until))
local keep_chunks_until = math.max(forget, lease_until)
)lua";

constexpr std::string_view finish_terms =
    "local final, kept, has, confirm, ttl, nonce = struct.unpack('>BBBBI8c16', ARGV[1])";
constexpr std::string_view finish = R"lua(
if state == final then
  if confirm == 1 and waited ~= 2 then redis.call('SET', KEYS[1], v, 'KEEPTTL') end
  return struct.pack('>c1I8', 'S', us) .. v
end
if state ~= 0 and state ~= 3 then return struct.pack('>c1I8', 'L', us) end
)lua";
// The chunks stay until the record expires if the outcome is unknown, or if a success has its body in them.
constexpr std::string_view finish_write = R"lua(
forget = now + ttl + math.max(forget - expires, 0)
expires = now + ttl
local labels, keep_chunks_until = '', (final == 3 or final == 1 and kept == 2) and expires
if keep_chunks_until and flags % 8 >= 4 then has = has + 4 end
if flags % 4 >= 2 then
  local tenant = string.byte(v, 107)
  labels = string.sub(v, 107, 108 + tenant + string.byte(v, 108 + tenant))
  has = has + 2
end
local head = struct.pack('>BBBBI8I8B', 3, final, kept, has, expires, lease_until, 0) .. string.sub(v, 22, 98) ..
  struct.pack('>I8', forget)
redis.call('SET', KEYS[1], head .. labels .. ARGV[2], 'PXAT', forget)
)lua";
// An operator's write: the record must be as it was seen, and must not have a running owner.
constexpr std::string_view resolve_terms =
    "local final, kept, has, seen, ttl, nonce = struct.unpack('>BBBBI8c16', ARGV[1])";
constexpr std::string_view resolve = R"lua(
if state ~= seen or state ~= 3 and (state ~= 0 or now < lease_until) then return struct.pack('>c1I8', 'L', us) end
)lua";
constexpr std::string_view head_end = "return struct.pack('>c1I8', 'W', us) .. head";

// A released first claim leaves a record for a minute that counts as absent: trace_of_release() in core/decision.hpp.
// Releasing a claim that does not exist leaves one too, because the claim may still arrive.
constexpr std::string_view release_terms = R"lua(
local nonce = ARGV[1]
local no_owner = string.sub(nonce, 9, 16) .. string.sub(nonce, 1, 8)
if not v then
  redis.call('SET', KEYS[1], struct.pack('>BBBBI8I8BBI4I8I8I8', 3, 2, 0, 0, 0, 0, 0, 3, 1, us, 0, 0) .. no_owner ..
    string.rep('\0', 40), 'PX', 60000)
end
)lua";
constexpr std::string_view release = R"lua(
if state ~= 0 then return struct.pack('>c1I8', 'L', us) end
local before, attempt = struct.unpack('>BI4', v, 22)
if attempt == 1 then
  redis.call('SET', KEYS[1], struct.pack('>BBBBI8I8B', 3, 2, 0, 0, 0, 0, 0) .. string.sub(v, 22, 50) .. no_owner ..
    string.sub(v, 67, 98) .. struct.pack('>I8', 0), 'PX', 60000)
else
  local before_at = string.sub(v, 43, 50)
  redis.call('SET', KEYS[1], struct.pack('>BB', 3, before) .. string.sub(v, 3, 20) ..
    struct.pack('>BBI4', 0, before, attempt - 1) .. string.sub(v, 27, 34) .. before_at .. before_at ..
    no_owner .. string.sub(v, 67), 'PXAT', forget)
end
)lua";
constexpr std::string_view written_end = "return struct.pack('>c1I8', 'W', us)";

// An operator's write, also for an expired record that is remembered; it must not have a running owner.
constexpr std::string_view forget = R"lua(
local seen, nonce = struct.unpack('>Bc16', ARGV[1])
if not v then return struct.pack('>c1I8', 'L', us) end
local version, state, old_kept, flags, expires, lease_until, waited = struct.unpack('>BBBBI8I8B', v)
if version < 2 or version > 3 and (version > 31 or old_kept < 16 or old_kept > 63) then
  return struct.pack('>c1I8', 'U', us) .. string.sub(v, 1, 3)
end
if state == 0 and now < lease_until then return struct.pack('>c1I8', 'L', us) end
if expires <= now then
  if struct.unpack('>I8', v, 99) <= now then return struct.pack('>c1I8', 'L', us) end
  state = 4
end
if state ~= seen or string.sub(v, 51, 66) ~= nonce then return struct.pack('>c1I8', 'L', us) end
redis.call('DEL', KEYS[1])
)lua";

// If the registration of a waiter fails, because Redis is full or a replica, the waiter only polls. An outcome is
// written again before it is returned, as by a claim.
constexpr std::string_view lookup_terms = "local waits, confirm = struct.unpack('>BB', ARGV[1])";
constexpr std::string_view lookup = R"lua(
if not v then return struct.pack('>c1I8', 'N', us) end
local version, state, old_kept, _, expires, lease_until, waited = struct.unpack('>BBBBI8I8B', v)
if version < 2 or version > 3 and (version > 31 or old_kept < 16 or old_kept > 63) then
  return struct.pack('>c1I8', 'U', us) .. string.sub(v, 1, 3)
end
if not (state == 0 and now < lease_until) then
  if expires <= now and struct.unpack('>I8', v, 99) <= now then return struct.pack('>c1I8', 'N', us) end
  if expires <= now then return struct.pack('>c1I8', 'S', us) .. string.sub(v, 1, 106) end
end
if waits == 1 and state == 0 and waited == 0 then redis.pcall('SETRANGE', KEYS[1], 20, '\1') end
if confirm == 1 and state == 1 and waited ~= 2 then redis.call('GETEX', KEYS[1]) redis.call('SET', KEYS[1], v, 'KEEPTTL') end
)lua";
constexpr std::string_view lookup_end = "return struct.pack('>c1I8', 'S', us) .. v";

// The number of chunks to read at once is estimated from the size of earlier ones. If replicas are waited for, chunks
// that are about to be returned need a write of this connection, like outcomes. Chunks of a success follow its outcome:
// replicas that have the outcome have them too.
constexpr std::string_view read_terms = "local waits, confirm, first, most = struct.unpack('>BBI4I8', ARGV[1])";
constexpr std::string_view list_chunks = R"lua(
if (state == 0 or state == 3 or state == 1 and old_kept % 16 == 2) and redis.call('LINDEX', KEYS[2], 0) == string.sub(v, 51, 66) then
  local answer, taken, at, step = {struct.pack('>c1I8', 'S', us) .. v}, 0, first + 1, 8
  while true do
    local some = redis.call('LRANGE', KEYS[2], at, at + step - 1)
    for _, chunk in ipairs(some) do
      taken = taken + #chunk
      if #answer > 1 and taken > most then break end
      answer[#answer + 1] = chunk
    end
    at = at + #some
    if #some < step or taken >= most then break end
    step = math.max(1, math.min(256, math.floor((most - taken) * (at - first - 1) / math.max(taken, 1))))
  end
  if #answer > 1 then
    if confirm == 1 and state ~= 1 then redis.call('PEXPIREAT', KEYS[2], math.max(struct.unpack('>I8', v, 99), lease_until)) end
    return answer
  end
end
)lua";

// A chunk is written like a claim, not like an outcome: a full Redis refuses it. The expiry is always written, even for
// a repeated chunk, because WAIT needs a write. Readers at other gateways are notified of a new chunk as they are of an
// end.
constexpr std::string_view chunk_terms = "local number, nonce = struct.unpack('>I4c16', ARGV[1])";
constexpr std::string_view append = R"lua(
if state ~= 0 then return struct.pack('>c1I8', 'L', us) end
local appended_by = redis.call('LINDEX', KEYS[2], 0)
local count = appended_by == nonce and redis.call('LLEN', KEYS[2]) - 1 or 0
if count > number then waited = 0 end
if count < number then return struct.pack('>c1I8', 'M', us) end
if appended_by ~= nonce then
  if appended_by then redis.call('DEL', KEYS[2]) end
  redis.call('RPUSH', KEYS[2], nonce, ARGV[2])
elseif count == number then
  redis.call('RPUSH', KEYS[2], ARGV[2])
end
redis.call('PEXPIREAT', KEYS[2], math.max(forget, lease_until))
if flags % 8 < 4 then redis.call('SETRANGE', KEYS[1], 3, string.char(flags + 4)) end
)lua";

// The mark is sent after WAIT has confirmed the replicas, for on_replicas(). If it fails, a later read waits again.
constexpr std::string_view mark = R"lua(
local v = redis.call('GETRANGE', KEYS[1], 0, 65)
if #v == 66 and string.byte(v, 2) == 1 and string.byte(v, 21) == 0 and string.sub(v, 51, 66) == ARGV[1] then
  redis.pcall('SETRANGE', KEYS[1], 20, '\2')
end
return 1
)lua";

constexpr std::array all_verbs = {Verb::claim,   Verb::renew,  Verb::finish, Verb::release, Verb::forget,
                                  Verb::resolve, Verb::lookup, Verb::append, Verb::read};
static_assert(all_verbs.size() == verb_count);

std::string sha1_hex(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  ONCE_ASSERT(EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr) == 1);
  return to_hex(std::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

bool uses_chunks(Verb verb) {
  return verb == Verb::append || verb == Verb::read;
}

}  // namespace

std::string script_of(Verb verb) {
  const auto script = [](std::string_view begin, std::initializer_list<std::string_view> parts) {
    return fmt::format("{}{}\n{}", read_clock, begin, fmt::join(parts, "\n"));
  };
  switch (verb) {
    case Verb::claim: return script(read_value, {claim, drop_chunks, tend_chunks, claim_end});
    case Verb::renew: return script(read_value_as_owner, {renew_terms, owners_only, renew, tend_chunks, written_end});
    case Verb::finish:
      return script(read_value_as_owner,
                    {finish_terms, owners_only, finish, finish_write, tend_chunks, tell, head_end});
    case Verb::resolve:
      return script(read_value_as_owner,
                    {resolve_terms, owners_only, resolve, finish_write, tend_chunks, tell, head_end});
    case Verb::release:
      return script(read_value_as_owner,
                    {release_terms, owners_only, release, drop_chunks, tend_chunks, tell, written_end});
    case Verb::forget: return script(read_value, {forget, drop_chunks, tend_chunks, tell, written_end});
    case Verb::append: return script(read_value, {chunk_terms, owners_only, append, tell, written_end});
    case Verb::lookup: return script(read_value, {lookup_terms, lookup, lookup_end});
    case Verb::read: return script(read_value, {read_terms, lookup, list_chunks, lookup_end});
  }
  ONCE_ASSERT(false);
}

Scripts::Scripts() {
  append_command_head(mark_head_, 5);
  append_argument(mark_head_, "EVALSHA");
  append_argument(mark_head_, sha1_hex(mark));
  append_argument(mark_head_, "1");
  for (const Verb verb : all_verbs) {
    std::string& head = heads_[static_cast<std::size_t>(verb)];
    const std::size_t arguments = brings_bytes(verb) || verb == Verb::claim ? 2 : 1;
    const std::size_t keys = uses_chunks(verb) ? 2 : 1;
    append_command_head(head, 3 + keys + arguments);
    append_argument(head, "EVALSHA");
    append_argument(head, sha1_hex(script_of(verb)));
    append_argument(head, std::to_string(keys));
    terms_heads_[static_cast<std::size_t>(verb)] = fmt::format("${}\r\n", terms_size(verb));
  }
}

void Scripts::append_call(std::string& out, const Op& op, std::string_view prefix, std::string_view key,
                          const CallTerms& terms) const {
  out += heads_[static_cast<std::size_t>(op.verb)];
  append_argument(out, key);
  if (uses_chunks(op.verb)) {
    std::string chunks;
    append_chunks_key(chunks, prefix, key);
    append_argument(out, chunks);
  }
  out += terms_heads_[static_cast<std::size_t>(op.verb)];
  append_terms(out, op, terms);
  out += "\r\n";
  if (brings_bytes(op.verb)) append_argument(out, op.outcome ? std::string_view(*op.outcome) : std::string_view());
  if (op.verb == Verb::claim) append_argument(out, packed_labels(op.tenant, op.route));
}

void Scripts::append_mark(std::string& out, std::string_view key, const Nonce& nonce) const {
  out += mark_head_;
  append_argument(out, key);
  append_argument(out, nonce.view());
}

void Scripts::append_load(std::string& out) const {
  append_command(out, {"SCRIPT", "LOAD", mark});
  for (const Verb verb : all_verbs) append_command(out, {"SCRIPT", "LOAD", script_of(verb)});
}

}  // namespace once::redis
