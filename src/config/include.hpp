// Reads the files of the setting `include`.
#pragma once

#include <cstddef>
#include <expected>
#include <functional>
#include <string>
#include <vector>

#include "base/layers.hpp"

namespace once::config {

inline constexpr std::size_t largest_config_file = std::size_t{1} << 20U;

struct IncludedFile {
  std::string path;
  std::string text;
};

using ReadIncluded = std::function<std::expected<std::vector<IncludedFile>, std::string>(const std::string& pattern)>;

// A whole configuration file. The error only contains the reason why it cannot be read.
std::expected<std::string, std::string> read_config_file(const std::string& path);

// The files that one item of `include` in the file `from` names. The item is a path, or a pattern with * ? and [,
// relative to the folder of `from`. A pattern may match no file; matches are sorted by name, without hidden files.
std::expected<std::vector<IncludedFile>, std::string> read_included(const std::string& pattern,
                                                                    const std::string& from);

}  // namespace once::config
