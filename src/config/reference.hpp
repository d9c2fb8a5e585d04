// The reference documentation of all settings, made from the settings tables.
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

// An index with the rules of the file and the settings that most people need, and a page for each topic.
std::vector<ReferencePage> reference_pages();

// Every setting with its default and what it is for, as a configuration file; reading it changes nothing.
std::string reference_yaml();

}  // namespace once::config
