#include "store/sealed_store.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/assert.hpp"
#include "base/sha256.hpp"

namespace once {

namespace {

constexpr char sealed_version = 2;
constexpr std::string_view key_domain = "once outcome key 1";
constexpr std::string_view name_domain = "once outcome key name 1";

std::array<std::uint8_t, 32> hashed(std::string_view domain, std::string_view secret) {
  HmacSha256::Stream stream = HmacSha256(secret).start();
  stream.update_part(domain);
  return stream.finish();
}

}  // namespace

SealedStore::SealedStore(Store& inner, std::span<const std::string> secrets, Random& random, const Log& log)
    : inner_(inner), log_(log), random_(random) {
  ONCE_ASSERT(!secrets.empty());
  for (const std::string& secret : secrets) {
    KeyName name{};
    const auto hash = hashed(name_domain, secret);
    std::copy_n(hash.begin(), name.size(), name.begin());
    keys_.push_back({name, Aead(hashed(key_domain, secret))});
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
  bytes->reserve(2 + key.name.size() + Aead::overhead + op.outcome->size());
  bytes->push_back(sealed_version);
  bytes->push_back(0);
  bytes->append(key.name.data(), key.name.size());
  key.cipher.seal_into(*bytes, *op.outcome, op.id.view(), new_nonce());
  return bytes;
}

void SealedStore::open(Op& op) const {
  if (!op.record || op.record->outcome == nullptr) return;
  const std::string_view bytes = *op.record->outcome;
  if (!bytes.starts_with(sealed_version)) return;
  const std::string_view name = bytes.substr(std::min<std::size_t>(2, bytes.size()), sizeof(KeyName));
  const auto key = std::ranges::find_if(
      keys_, [name](const NamedKey& each) { return name == std::string_view(each.name.data(), each.name.size()); });
  std::optional<std::string> plain;
  if (key != keys_.end()) plain = key->cipher.open(bytes.substr(2 + name.size()), op.id.view());
  if (!plain) {
    const std::string_view why = key == keys_.end() ? "its key is not in encryption.keys" : "it was changed";
    log_.error("outcome cannot be decrypted", {{"operation", to_hex(op.id)}, {"reason", why}});
    op.record->outcome.reset();
    return;
  }
  op.record->outcome = std::make_shared<const std::string>(*std::move(plain));
}

void SealedStore::execute(std::span<Op* const> batch) {
  std::vector<std::pair<OutcomeBytes, OutcomeBytes>> outcomes(batch.size());  // as given, and as sealed
  for (std::size_t i = 0; i < batch.size(); ++i) {
    Op& op = *batch[i];
    if (!writes_outcome(op.verb) || op.outcome == nullptr) continue;
    outcomes[i] = {op.outcome, sealed(op)};
    op.outcome = outcomes[i].second;
  }
  inner_.execute(batch);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    Op& op = *batch[i];
    const auto& [given, kept] = outcomes[i];
    if (given != nullptr) op.outcome = given;
    if (given != nullptr && op.record && op.record->outcome == kept) {
      op.record->outcome = given;  // what was just written need not be opened
    } else {
      open(op);
    }
  }
}

bool SealedStore::answer_at_once(Op& op) {
  if (!inner_.answer_at_once(op)) return false;
  open(op);
  return true;
}

}  // namespace once
