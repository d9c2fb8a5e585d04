// The reference documentation of all settings, generated from the settings tables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/layers.hpp"

namespace once::config {

struct ReferencePage {
  std::string_view file;  // in docs/reference/configuration
  std::string text;
};

// An index with the syntax of the file and the most common settings, and one page per topic.
std::vector<ReferencePage> reference_pages();

// A configuration file with every setting, its default and its description. Reading it changes nothing.
std::string reference_yaml();

}  // namespace once::config
