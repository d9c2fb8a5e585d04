#include "store/sealed_store.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/assert.hpp"
#include "store/search.hpp"

namespace once::store {

namespace {

constexpr char sealed_version = 3;
constexpr char shared_key_version = 2;
constexpr std::size_t key_name_at = 2;
constexpr std::string_view operation_key_domain = "once outcome key 2";
constexpr std::string_view shared_key_domain = "once outcome key 1";
constexpr std::string_view was_changed = "it was changed";
constexpr std::string_view name_domain = "once outcome key name 1";

Digest hashed(const HmacSha256& secret, std::string_view domain) {
  HmacSha256::Stream stream = secret.start();
  stream.update_part(domain);
  return stream.digest();
}

// All parts have fixed lengths, so no lengths are included.
std::string context_of(std::string_view header, const OperationId& id, const Nonce& claim) {
  std::string context;
  context.reserve(header.size() + id.view().size() + claim.view().size());
  context.append(header).append(id.view()).append(claim.view());
  return context;
}

// The context of a chunk.
std::string context_of(std::string_view header, const OperationId& id, const Nonce& claim, std::uint32_t chunk) {
  std::string context = context_of(header, id, claim);
  for (unsigned shift = 0; shift < 32; shift += 8) context.push_back(static_cast<char>((chunk >> shift) & 0xFFU));
  return context;
}

// Whether this is the unencrypted head of a body in chunks, recorded before encryption was configured.
bool is_plain_head(const Record& record) {
  return record.body_kept == BodyKept::in_chunks && record.outcome != nullptr &&
         record.outcome->starts_with(shared_key_version);
}

bool is_sealed(const Record& record) {
  if (record.outcome == nullptr || is_plain_head(record)) return false;
  return record.outcome->starts_with(sealed_version) || record.outcome->starts_with(shared_key_version);
}

bool is_sealed_chunk(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == sealed_version && bytes[1] == 0;
}

}  // namespace

Aead SealedStore::NamedKey::cipher_of(const OperationId& id) const {
  HmacSha256::Stream stream = secret.start();
  stream.update_part(operation_key_domain);
  stream.update_part(id.view());
  return Aead(stream.digest());
}

SealedStore::SealedStore(Store& inner, std::span<const std::string> secrets, Random& random, const Log& log)
    : inner_(inner), log_(log), random_(random) {
  ONCE_ASSERT(!secrets.empty());
  for (const std::string& text : secrets) {
    const HmacSha256 secret(text);
    KeyName name{};
    const Digest hash = hashed(secret, name_domain);
    std::copy_n(hash.begin(), name.size(), name.begin());
    keys_.push_back({.name = name, .secret = secret, .version_2 = Aead(hashed(secret, shared_key_domain))});
  }
}

Aead::Nonce SealedStore::new_nonce() {
  Aead::Nonce nonce{};
  const std::scoped_lock lock(random_mutex_);
  random_.fill(nonce);
  return nonce;
}

OutcomeBytes SealedStore::sealed(const Op& op) {
  const NamedKey& key = keys_.front();
  auto bytes = std::make_shared<std::string>();
  bytes->reserve(header_size + Aead::overhead + op.outcome->size());
  bytes->push_back(sealed_version);
  bytes->push_back(0);
  bytes->append(key.name.data(), key.name.size());
  const std::string context =
      op.verb == Verb::append ? context_of(*bytes, op.id, op.nonce, op.chunk) : context_of(*bytes, op.id, op.nonce);
  key.cipher_of(op.id).seal_into(*bytes, *op.outcome, context, new_nonce());
  return bytes;
}

std::optional<std::string> SealedStore::opened(const Op& op, const NamedKey& key) const {
  const std::string_view bytes = *op.record->outcome;
  const std::string_view text = bytes.substr(header_size);
  if (bytes.starts_with(shared_key_version)) return key.version_2.open(text, op.id.view());
  // If a write finds another outcome than its own, that one was recorded under the same claim.
  const Nonce& claim = writes_outcome(op.verb) ? op.nonce : op.record->nonce;
  const std::string context = context_of(bytes.substr(0, header_size), op.id, claim);
  return key.cipher_of(op.id).open(text, context);
}

void SealedStore::open(Op& op) const {
  if (!op.record || !is_sealed(*op.record)) return;
  const NamedKey* key = key_of(op.id, *op.record->outcome);
  std::optional<std::string> plain;
  if (key != nullptr) plain = opened(op, *key);
  if (key != nullptr && !plain) log_unreadable(op.id, was_changed);
  op.record->outcome = plain ? std::make_shared<const std::string>(*std::move(plain)) : nullptr;
}

// A reader must not take a part for the whole, so a single unreadable chunk fails the op. Call it before open(): if the
// head is plain, the chunks are plain too, whatever their first bytes are.
void SealedStore::open_chunks(Op& op) const {
  if (op.chunks.empty()) return;
  const bool plain_head = is_plain_head(*op.record);
  std::uint32_t number = op.chunk;
  for (OutcomeBytes& chunk : op.chunks) {
    const std::uint32_t at = number++;
    const std::string_view bytes = *chunk;
    if (!is_sealed_chunk(bytes) || (plain_head && find_key(bytes) == nullptr)) continue;
    const NamedKey* key = key_of(op.id, bytes);
    std::optional<std::string> plain;
    if (key != nullptr) {
      const std::string context = context_of(bytes.substr(0, header_size), op.id, op.record->nonce, at);
      plain = key->cipher_of(op.id).open(bytes.substr(header_size), context);
      if (!plain) log_unreadable(op.id, was_changed);
    }
    if (!plain) return answer_failed(op, StoreFault::unavailable, "a chunk of the response cannot be decrypted");
    chunk = std::make_shared<const std::string>(*std::move(plain));
  }
}

const SealedStore::NamedKey* SealedStore::find_key(std::string_view bytes) const {
  const std::string_view name = bytes.substr(std::min(key_name_at, bytes.size()), sizeof(KeyName));
  const auto key = std::ranges::find_if(
      keys_, [name](const NamedKey& each) { return name == std::string_view(each.name.data(), each.name.size()); });
  return key == keys_.end() ? nullptr : &*key;
}

const SealedStore::NamedKey* SealedStore::key_of(const OperationId& id, std::string_view bytes) const {
  if (const NamedKey* key = find_key(bytes)) return key;
  log_unreadable(id, "its key is not in encryption.keys");
  return nullptr;
}

void SealedStore::log_unreadable(const OperationId& id, std::string_view why) const {
  log_.error("outcome cannot be decrypted", {{"operation", to_hex(prefix_of(id))}, {"reason", why}});
}

// The plain outcomes of a batch's ops, while the inner store sees sealed ones. They are restored even if the store
// throws: a retried finish must not be sealed twice.
struct SealedStore::Given {
  struct Outcome {
    OutcomeBytes given;
    OutcomeBytes sealed;
  };

  explicit Given(std::span<Op* const> of) : batch(of), outcomes(of.size()) {}
  Given(const Given&) = delete;
  Given& operator=(const Given&) = delete;
  ~Given() {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (outcomes[i].given != nullptr) batch[i]->outcome = outcomes[i].given;
    }
  }

  std::span<Op* const> batch;
  std::vector<Outcome> outcomes;
};

void SealedStore::execute_until(std::chrono::nanoseconds until, std::span<Op* const> batch) {
  Given ops(batch);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    Op& op = *batch[i];
    if (!brings_bytes(op.verb) || op.outcome == nullptr) continue;
    ops.outcomes[i] = {.given = op.outcome, .sealed = sealed(op)};
    op.outcome = ops.outcomes[i].sealed;
  }
  if (until == std::chrono::nanoseconds::max()) {
    inner_.execute(batch);
  } else {
    inner_.execute_until(until, batch);
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    Op& op = *batch[i];
    const auto& [given, kept] = ops.outcomes[i];
    open_chunks(op);
    if (given != nullptr && op.record && op.record->outcome == kept) {
      op.record->outcome = given;  // the plain text of an outcome that was just written
    } else {
      open(op);
    }
  }
}

bool SealedStore::answer_at_once(Op& op) {
  if (!inner_.answer_at_once(op)) return false;
  open_chunks(op);
  open(op);
  return true;
}

}  // namespace once::store
