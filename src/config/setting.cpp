#include "config/setting.hpp"

#include "base/text.hpp"

namespace once::config {

Parsed<void> check_list(const Values& values) {
  if (values.size() > most_list_items) {
    return std::unexpected(fmt::format("at most {} values, got {}", most_list_items, values.size()));
  }
  for (auto value = values.begin(); value != values.end(); ++value) {
    if (std::find(values.begin(), value, *value) != value) {
      return std::unexpected(fmt::format("\"{}\" is listed twice", *value));
    }
  }
  return {};
}

std::string show_values(Shape shape, const Values& values) {
  if (shape == Shape::one) return values.at(0);
  return fmt::format("[{}]", fmt::join(values, ", "));
}

Values read_values(Shape shape, std::string_view text) {
  if (shape != Shape::list) return {std::string(text)};
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  Values values;
  if (trim(text).empty()) return values;
  for (const std::string_view part : split(text, ',')) values.emplace_back(trim(part));
  return values;
}

}  // namespace once::config
