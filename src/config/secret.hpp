// The secret for operation ids. It comes from ONCE_SECRET or a file. In development, with a store that is not shared,
// it is generated once and kept.
#pragma once

#include <expected>
#include <string>

#include "base/random.hpp"
#include "config/prepare.hpp"

namespace once::config {

inline constexpr std::size_t shortest_secret = 16;

struct Secret {
  std::string bytes;
  std::string warning;  // may be empty
};

// The error never contains the secret.
std::expected<Secret, std::string> find_secret(const Config& config, const Environ& environ, Random& random);

// The same without creating one: if there is none the secret is empty, with a warning if serving needs one.
std::expected<Secret, std::string> given_secret(const Config& config, const Environ& environ);

struct FileContent {
  std::string bytes;
  std::string protect;  // the command that makes it unreadable for others; empty: none is needed
};

// The error only contains the reason.
std::expected<FileContent, std::string> read_file(const std::string& path, std::size_t most_bytes);

// Resolves a source that secret_source_codec() accepted. Empty stays empty.
std::expected<Secret, std::string> resolve_secret(const std::string& source, const Environ& environ);

// Reads a file with one line of at least shortest_secret bytes.
std::expected<Secret, std::string> read_secret(const std::string& path);

}  // namespace once::config
