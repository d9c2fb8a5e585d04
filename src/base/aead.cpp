#include "base/aead.hpp"

#include <algorithm>
#include <memory>

#include <openssl/evp.h>

#include "base/assert.hpp"
#include "base/bytes.hpp"

namespace once::base {

namespace {

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_CIPHER_CTX, FreeContext>;

// Looked up once: EVP_aes_256_gcm() would be looked up again for every message, a third of the cost of a small one.
const EVP_CIPHER* aes_256_gcm() {
  static const EVP_CIPHER* const cipher = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  return cipher;
}

unsigned char* bytes_at(std::string& text, std::size_t at) {
  return reinterpret_cast<unsigned char*>(text.data() + at);
}

int length_of(std::string_view text) {
  constexpr std::size_t longest = std::size_t{1} << 30U;  // bound on one message; outcomes are far smaller
  ONCE_ASSERT(text.size() <= longest);
  return static_cast<int>(text.size());
}

}  // namespace

void Aead::seal_into(std::string& out, std::string_view plain, std::string_view context, const Nonce& nonce) const {
  const std::size_t begin = out.size();
  out.resize(begin + overhead + plain.size());
  std::ranges::copy(nonce, bytes_at(out, begin));
  const Context cipher(EVP_CIPHER_CTX_new());
  int length = 0;
  int rest = 0;
  unsigned char* const text = bytes_at(out, begin + nonce_size);
  const bool sealed = cipher != nullptr &&
                      EVP_EncryptInit_ex(cipher.get(), aes_256_gcm(), nullptr, key_.data(), nonce.data()) == 1 &&
                      EVP_EncryptUpdate(cipher.get(), nullptr, &length, bytes_of(context), length_of(context)) == 1 &&
                      EVP_EncryptUpdate(cipher.get(), text, &length, bytes_of(plain), length_of(plain)) == 1 &&
                      EVP_EncryptFinal_ex(cipher.get(), text + length, &rest) == 1 &&
                      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, tag_size, text + plain.size()) == 1;
  ONCE_ASSERT(sealed);  // fails only if the library is broken or out of memory
}

std::optional<std::string> Aead::open(std::string_view sealed, std::string_view context) const {
  if (sealed.size() < overhead) return std::nullopt;
  const std::string_view nonce = sealed.substr(0, nonce_size);
  const std::string_view text = sealed.substr(nonce_size, sealed.size() - overhead);
  std::string tag(sealed.substr(sealed.size() - tag_size));
  std::string plain(text.size(), '\0');
  const Context cipher(EVP_CIPHER_CTX_new());
  int length = 0;
  const bool opened =
      cipher != nullptr &&
      EVP_DecryptInit_ex(cipher.get(), aes_256_gcm(), nullptr, key_.data(), bytes_of(nonce)) == 1 &&
      EVP_DecryptUpdate(cipher.get(), nullptr, &length, bytes_of(context), length_of(context)) == 1 &&
      EVP_DecryptUpdate(cipher.get(), bytes_at(plain, 0), &length, bytes_of(text), length_of(text)) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, tag_size, tag.data()) == 1 &&
      EVP_DecryptFinal_ex(cipher.get(), bytes_at(plain, 0) + length, &length) == 1;
  if (!opened) return std::nullopt;
  return plain;
}

}  // namespace once::base
