#include "cli/hidden_values.hpp"

#include <map>
#include <mutex>

#include <fmt/format.h>

namespace once::cli {

namespace {

constexpr std::size_t shortest_hidden = 4;

struct HiddenValues {
  std::mutex mutex;
  std::map<std::string, std::string, std::less<>> names;  // by value
};

HiddenValues& hidden_values() {
  static HiddenValues values;
  return values;
}

}  // namespace

void hide_value(std::string_view name, std::string_view value) {
  if (value.size() < shortest_hidden) return;
  HiddenValues& hidden = hidden_values();
  const std::scoped_lock lock(hidden.mutex);
  hidden.names.emplace(value, name);
}

std::string without_hidden(std::string_view text) {
  HiddenValues& hidden = hidden_values();
  const std::scoped_lock lock(hidden.mutex);
  std::string out;
  while (!text.empty()) {
    const std::pair<const std::string, std::string>* longest = nullptr;
    for (const auto& each : hidden.names) {
      const bool longer = longest == nullptr || each.first.size() > longest->first.size();
      if (longer && text.starts_with(each.first)) longest = &each;
    }
    if (longest != nullptr) {
      out += fmt::format("${{{}}}", longest->second);
      text.remove_prefix(longest->first.size());
    } else {
      out += text.front();
      text.remove_prefix(1);
    }
  }
  return out;
}

ConfigError without_hidden(const ConfigError& error) {
  ConfigError shown = error;
  shown.text = without_hidden(error.text);
  return shown;
}

}  // namespace once::cli
