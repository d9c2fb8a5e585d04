// Settings of earlier versions. A file that still has one gets an error that says what replaced it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/yaml.hpp"

namespace once::config {

struct RemovedSetting {
  std::string_view name;     // dotted, as it stood in its section
  std::string_view instead;  // what holds now: a sentence without its full stop
};

std::span<const RemovedSetting> removed_settings();

// Whether the map has a setting of a group that earlier versions had.
bool was_group(const std::string& name, const YamlNode& value);

// The error for a name that is no setting: what became of it, or which of `names` it resembles.
std::string unknown_setting(std::string_view name, const std::vector<std::string_view>& names);

}  // namespace once::config
