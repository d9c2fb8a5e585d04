// The secret that operation ids are made with. Given by ONCE_SECRET or a file; in development, on a store that is not
// shared, made once and kept.
#pragma once

#include <expected>
#include <string>

#include "base/random.hpp"
#include "config/finish.hpp"

namespace once {

inline constexpr std::size_t shortest_secret = 16;

struct Secret {
  std::string bytes;
  std::string warning;  // may be empty
};

// The error is for people; it never holds the secret.
std::expected<Secret, std::string> find_secret(const Config& config, const Environ& environ, Random& random);

// Other gateways use the store too, so they must all have the same secret.
bool is_shared_store(std::string_view store);

}  // namespace once
