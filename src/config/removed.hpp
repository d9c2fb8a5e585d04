// Removed settings. A file that still has one gets an error that names its replacement.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/yaml.hpp"

namespace once::config {

struct RemovedSetting {
  std::string_view name;     // dotted, as in its section
  std::string_view instead;  // the replacement: a sentence without its full stop
};

std::span<const RemovedSetting> removed_settings();

// Whether the map contains a setting of a group that was removed.
bool was_group(const std::string& name, const YamlNode& value);

// The error for an unknown name: its replacement if it was removed, else a similar one of `names`.
std::string unknown_setting(std::string_view name, const std::vector<std::string_view>& names);

}  // namespace once::config
