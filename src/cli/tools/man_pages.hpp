// Manual pages in man(7) format, made from the definitions of commands and settings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/layers.hpp"

namespace once::cli {

struct Page {
  std::string name;  // the file's name: once-serve.1
  std::string text;
};

// once(1), one page per command, and once.yaml(5). `date` is printed unchanged in every footer.
std::vector<Page> manual(const CLI::App& app, std::string_view date);

}  // namespace once::cli
