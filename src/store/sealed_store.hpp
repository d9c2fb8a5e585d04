// Encrypts outcomes at rest, in any store. Outcomes are encrypted with the first key and decrypted with the key that
// they were encrypted with. To rotate keys, put a new one first and remove the old one when everything encrypted with
// it has expired.
//
//   0   u8      version, 3
//   1   u8      0
//   2   8 bytes which key: HMAC-SHA-256(key, "once outcome key name 1"), cut off
//   10  nonce, ciphertext, tag (base/aead.hpp)
//
// Each operation has its own cipher key, HMAC-SHA-256(key, "once outcome key 2" and the operation's id): random nonces
// must then be unique only among the few attempts of one operation. The context is the ten bytes above, the
// operation's id and the nonce of the claim that recorded the outcome. A claim has one attempt and one fence, so an
// outcome opens neither in another row nor as that of another attempt.
//
// Chunks are sealed like outcomes. Their context also has their number, four bytes, little endian: none opens in
// another one's place, or as an outcome. Each names the key that it was sealed with, so a body in chunks can be
// opened as long as all of these keys are configured.
//
// Version 2, which is read and no longer written, has one cipher key for all operations, HMAC-SHA-256(key, "once
// outcome key 1"), and the operation's id as its context. A plain outcome begins with 1 and is passed unchanged:
// backends that record their own outcome in SQL write it unencrypted, and so did this store before it had keys. The
// plain head of a body in chunks begins with 2, and chunks were never sealed as version 2.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/aead.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "base/sha256.hpp"
#include "store/store.hpp"

namespace once::store {

class SealedStore final : public Store {
 public:
  // `secrets`: at least one, each with at least 16 unpredictable bytes; the first one encrypts. The inner store and
  // `random`, which is used by this object only, outlive it.
  SealedStore(Store& inner, std::span<const std::string> secrets, Random& random, const Log& log);

  void execute(std::span<Op* const> batch) override { execute_until(std::chrono::nanoseconds::max(), batch); }
  void execute_until(std::chrono::nanoseconds until, std::span<Op* const> batch) override;
  Duration time_limit() const override { return inner_.time_limit(); }
  std::size_t part_of(const OperationId& id) const override { return inner_.part_of(id); }
  bool answer_at_once(Op& op) override;
  void notify_of_evictions(std::function<void(const Evicted&)> notify) override {
    inner_.notify_of_evictions(std::move(notify));
  }
  void notify_of_ends(std::function<void(const OperationId&)> notify) override {
    inner_.notify_of_ends(std::move(notify));
  }
  Traits traits() const override { return inner_.traits(); }
  bool failed_for_good() const override { return inner_.failed_for_good(); }
  // Reported outcome sizes are the encrypted ones.
  Search* search() override { return inner_.search(); }
  StoreCondition condition() const override { return inner_.condition(); }
  StoreReport report() const override { return inner_.report(); }
  Exclusive* exclusive() override { return inner_.exclusive(); }

 private:
  using KeyName = std::array<char, 8>;
  static constexpr std::size_t header_size = 2 + sizeof(KeyName);
  struct NamedKey {
    KeyName name;
    HmacSha256 secret;
    Aead version_2;

    Aead cipher_of(const OperationId& id) const;
  };

  struct Given;

  OutcomeBytes sealed(const Op& op);
  Aead::Nonce new_nonce();
  void open(Op& op) const;
  void open_chunks(Op& op) const;
  // The key that sealed these bytes; null if it is not configured.
  const NamedKey* find_key(std::string_view bytes) const;
  // The same; logs a missing key.
  const NamedKey* key_of(const OperationId& id, std::string_view bytes) const;
  std::optional<std::string> opened(const Op& op, const NamedKey& key) const;
  void log_unreadable(const OperationId& id, std::string_view why) const;

  Store& inner_;
  const Log& log_;
  std::vector<NamedKey> keys_;
  std::mutex random_mutex_;
  Random& random_;
};

}  // namespace once::store
