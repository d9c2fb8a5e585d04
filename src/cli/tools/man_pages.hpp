// The manual in the language of man(7), made from the definitions of the commands and of the settings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/layers.hpp"

namespace once::cli {

struct Page {
  std::string name;  // of the file: once-serve.1
  std::string text;
};

// once(1), a page for each command, and once.yaml(5). `date` is written as it is, in every foot.
std::vector<Page> manual(const CLI::App& app, std::string_view date);

}  // namespace once::cli
