// Outcomes encrypted at rest, in any store. What a store is given to keep is sealed with the first key; what it gives
// back is opened with whichever key it was sealed with, so keys are rotated by putting a new one first and dropping the
// old one when everything sealed with it has expired. An outcome is bound to its operation: moved to another row it
// does not open.
//
//   0   u8      version, 2 (a plain outcome begins with 1, and is passed as it is: backends that record their own
//   outcome
//               in SQL write it plainly, and so did this store before it had keys)
//   1   u8      0
//   2   8 bytes which key: the beginning of its SHA-256
//   10  nonce, ciphertext, tag (base/aead.hpp); the context is the operation's id
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/aead.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "store/store.hpp"

namespace once {

class SealedStore final : public Store {
 public:
  // `secrets`: at least one; the first one seals. Any bytes, of at least 16 unpredictable ones. The inner store
  // outlives this, and so does the source of randomness, which nobody else uses.
  SealedStore(Store& inner, std::span<const std::string> secrets, Random& random, const Log& log);

  void execute(std::span<Op* const> batch) override;
  bool answer_at_once(Op& op) override;
  void tell_ends(std::function<void(const OperationId&)> told) override { inner_.tell_ends(std::move(told)); }
  Traits traits() const override { return inner_.traits(); }
  bool failed_for_good() const override { return inner_.failed_for_good(); }
  // Sizes of outcomes are those of the sealed ones.
  Search* search() override { return inner_.search(); }

 private:
  using KeyName = std::array<char, 8>;
  struct NamedKey {
    KeyName name;
    Aead cipher;
  };

  OutcomeBytes sealed(const Op& op);
  Aead::Nonce new_nonce();
  void open(Op& op) const;

  Store& inner_;
  const Log& log_;
  std::vector<NamedKey> keys_;
  std::mutex random_mutex_;
  Random& random_;
};

}  // namespace once
