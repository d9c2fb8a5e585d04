// The dashboard's files, which are part of the program. They contain no data: the page requests it.
#pragma once

#include <string_view>

#include "base/layers.hpp"

namespace once::admin {

struct PageFile {
  std::string_view path;
  std::string_view type;
  std::string_view text;
};

// Null: there is no file at this path.
const PageFile* page_file(std::string_view path);

}  // namespace once::admin
