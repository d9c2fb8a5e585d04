#include "config/secret.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "base/bytes.hpp"
#include "base/descriptor.hpp"
#include "base/file_mode.hpp"
#include "store/catalog/catalog.hpp"

namespace once::config {

namespace {

constexpr std::size_t longest_secret = 4096;

std::string because(std::string_view what, const std::string& path, int error) {
  return fmt::format("{} {}: {}", what, path, std::generic_category().message(error));
}

std::string without_line_end(std::string text) {
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  return text;
}

}  // namespace

std::expected<FileContent, std::string> read_file(const std::string& path, std::size_t most_bytes) {
  const auto because_of = [](int error) { return std::unexpected(std::generic_category().message(error)); };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) return because_of(errno);
  FileContent content{.bytes = std::string(most_bytes + 1, '\0'), .protect = ""};
  std::size_t size = 0;
  for (;;) {
    const ssize_t got = ::read(file.get(), content.bytes.data() + size, content.bytes.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return because_of(errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > most_bytes) return std::unexpected(fmt::format("it is larger than {} bytes", most_bytes));
  content.bytes.resize(size);
  struct stat status{};
  if (::fstat(file.get(), &status) == 0) {
    content.protect = how_to_protect(path, status, FileReader::of_this_process());
  }
  return content;
}

std::expected<Secret, std::string> read_secret(const std::string& path) {
  auto file = read_file(path, longest_secret);
  if (!file) return std::unexpected(fmt::format("cannot read the secret in {}: {}", path, file.error()));
  Secret secret{.bytes = without_line_end(std::move(file->bytes)), .warning = ""};
  if (secret.bytes.size() < shortest_secret) {
    return std::unexpected(
        fmt::format("the secret in {} has {} bytes, at least {} are needed; make one with: openssl rand -hex 32", path,
                    secret.bytes.size(), shortest_secret));
  }
  if (!file->protect.empty()) {
    secret.warning = fmt::format("other users can read the secret in {}; run: {}", path, file->protect);
  }
  return secret;
}

std::expected<Secret, std::string> resolve_secret(const std::string& source, const Environ& environ) {
  constexpr std::string_view file = "file:";
  constexpr std::string_view variable = "env:";
  if (source.starts_with(file)) return read_secret(source.substr(file.size()));
  if (!source.starts_with(variable)) return Secret{.bytes = source, .warning = ""};
  const std::string name = source.substr(variable.size());
  const std::optional<std::string> given = environ(name);
  if (!given) return std::unexpected(fmt::format("the environment variable {} is not set", name));
  Secret secret{.bytes = without_line_end(*given), .warning = ""};
  if (secret.bytes.size() >= shortest_secret && secret.bytes.size() <= longest_secret) return secret;
  return std::unexpected(fmt::format("{} has {} bytes, {} to {} are needed; make one with: openssl rand -hex 32", name,
                                     secret.bytes.size(), shortest_secret, longest_secret));
}

namespace {

std::expected<void, std::string> make_folder(const std::string& path) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(path).lexically_normal().parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (!error && ::mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) error.assign(errno, std::generic_category());
  if (error) return std::unexpected(because("cannot make the folder", path, error.value()));
  return {};
}

// Links the file under its name only once it is complete and on disk, and only if there is none: if two processes
// start together, both use the same secret.
std::expected<void, std::string> write_new_secret(const std::string& folder, const std::string& path, Random& random) {
  std::array<std::uint8_t, 32> bytes{};
  random.fill(bytes);
  const std::string_view view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string temporary = fmt::format("{}.{}", path, to_hex(random.nonce()));
  const Descriptor file(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.open()) return std::unexpected(because("cannot write", temporary, errno));
  const bool written = write_all(file.get(), to_hex(view) + "\n") && ::fsync(file.get()) == 0;
  const bool linked = written && (::link(temporary.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const int error = errno;
  ::unlink(temporary.c_str());
  if (!linked) return std::unexpected(because("cannot write", path, error));
  const Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.open() || ::fsync(directory.get()) != 0) {
    return std::unexpected(because("cannot write", folder, errno));
  }
  return {};
}

std::string kept_secret(const std::string& folder) {
  return fmt::format("{}/secret", folder);
}

std::expected<Secret, std::string> keep_secret(const std::string& folder, Random& random) {
  const std::string path = kept_secret(folder);
  if (::access(path.c_str(), F_OK) != 0) {
    if (const auto made = make_folder(folder); !made) return std::unexpected(made.error());
    if (const auto written = write_new_secret(folder, path, random); !written) return std::unexpected(written.error());
  }
  return read_secret(path);
}

std::string how_to_give_one(std::string_view why) {
  return fmt::format(
      "{} needs a secret: make one with `openssl rand -hex 32`, and put it into ONCE_SECRET or into the file of "
      "secret_file",
      why);
}

}  // namespace

std::expected<Secret, std::string> given_secret(const Config& config, const Environ& environ) {
  if (const std::optional<std::string> given = environ("ONCE_SECRET")) {
    Secret secret{.bytes = without_line_end(*given), .warning = ""};
    if (secret.bytes.size() >= shortest_secret && secret.bytes.size() <= longest_secret) return secret;
    return std::unexpected(
        fmt::format("ONCE_SECRET has {} bytes, {} to {} are needed; make one with: openssl rand -hex 32",
                    secret.bytes.size(), shortest_secret, longest_secret));
  }
  if (!config.secret_file.empty()) return read_secret(config.secret_file);
  // A shared store needs the same secret in all gateways.
  if (is_shared_store(config.store)) return Secret{.bytes = "", .warning = how_to_give_one("a shared store")};
  if (config.environment == Environment::production) {
    return Secret{.bytes = "", .warning = how_to_give_one("environment: production")};
  }
  const std::string kept = kept_secret(config.data_dir);
  if (::access(kept.c_str(), F_OK) != 0) return Secret{};
  return read_secret(kept);
}

std::expected<Secret, std::string> find_secret(const Config& config, const Environ& environ, Random& random) {
  auto given = given_secret(config, environ);
  if (!given || !given->bytes.empty()) return given;
  if (!given->warning.empty()) return std::unexpected(std::move(given->warning));
  return keep_secret(config.data_dir, random);
}

}  // namespace once::config
