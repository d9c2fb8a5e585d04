#include "config/include.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <glob.h>

#include "base/text.hpp"
#include "config/secret.hpp"

namespace once::config {

namespace {

constexpr std::size_t most_included = 1000;

class Matches {
 public:
  explicit Matches(const std::string& pattern) {
    static thread_local int reason = 0;  // glob(3) reports errors to a plain function
    reason = 0;
    const auto on_error = [](const char*, int error) {
      reason = error;
      return 1;
    };
    const int status = ::glob(pattern.c_str(), 0, on_error, &found_);
    if (status != 0 && status != GLOB_NOMATCH) error_ = reason != 0 ? reason : ENOMEM;
  }
  ~Matches() { ::globfree(&found_); }
  Matches(const Matches&) = delete;
  Matches& operator=(const Matches&) = delete;

  int error() const { return error_; }  // errno; 0: none
  std::vector<std::string> paths() const {
    std::vector<std::string> all(found_.gl_pathv, found_.gl_pathv + found_.gl_pathc);
    std::ranges::sort(all);
    return all;
  }

 private:
  glob_t found_{};
  int error_ = 0;
};

// Regular files only: reading from a pipe or a device could block forever.
std::expected<IncludedFile, std::string> read_one(const std::string& path) {
  std::error_code error;
  if (const auto status = std::filesystem::status(path, error); !error && !std::filesystem::is_regular_file(status)) {
    return std::unexpected(fmt::format("{} is not a file", path));
  }
  auto text = read_config_file(path);
  if (!text) return std::unexpected(fmt::format("{}: {}", path, text.error()));
  return IncludedFile{.path = path, .text = std::move(*text)};
}

}  // namespace

std::expected<std::string, std::string> read_config_file(const std::string& path) {
  auto file = read_file(path, largest_config_file);
  if (!file) return std::unexpected(fmt::format("cannot be read: {}", file.error()));
  return std::move(file->bytes);
}

std::expected<std::vector<IncludedFile>, std::string> read_included(const std::string& pattern,
                                                                    const std::string& from) {
  const std::string path = (std::filesystem::path(from).parent_path() / pattern).string();
  std::vector<std::string> paths = {path};
  if (pattern.find_first_of("*?[") != std::string::npos) {
    const Matches matches(path);
    if (matches.error() != 0) {
      return std::unexpected(
          fmt::format("{}: a folder cannot be read: {}", path, std::generic_category().message(matches.error())));
    }
    paths = matches.paths();
  }
  if (paths.size() > most_included) {
    return std::unexpected(fmt::format("{} names {} files, at most {} are allowed", path, paths.size(), most_included));
  }
  std::vector<IncludedFile> files;
  for (const std::string& each : paths) {
    auto file = read_one(each);
    if (!file) return std::unexpected(std::move(file.error()));
    files.push_back(std::move(*file));
  }
  return files;
}

}  // namespace once::config
