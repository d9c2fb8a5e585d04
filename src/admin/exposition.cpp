#include "admin/exposition.hpp"

#include <iterator>

#include <fmt/format.h>

namespace once::admin {

namespace {

std::string with_braces(std::string_view labels) {
  return labels.empty() ? "" : fmt::format("{{{}}}", labels);
}

}  // namespace

std::string label_value(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped.push_back('\\');
    escaped.append(c == '\n' ? "\\n" : std::string_view(&c, 1));
  }
  return escaped;
}

void Exposition::family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void Exposition::sample(std::string_view labels, std::uint64_t value) {
  fmt::format_to(std::back_inserter(text_), "{}{} {}\n", name_, with_braces(labels), value);
}

void Exposition::sample(std::string_view labels, double value) {
  fmt::format_to(std::back_inserter(text_), "{}{} {}\n", name_, with_braces(labels), value);
}

void Exposition::single(std::string_view name, std::string_view type, std::string_view help, std::uint64_t value) {
  family(name, type, help);
  sample("", value);
}

void Exposition::histogram(std::string_view labels, const HistogramSnapshot& snapshot, double unit) {
  const std::string before_le = labels.empty() ? "" : fmt::format("{},", labels);
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < snapshot.bounds.size(); ++i) {
    below += snapshot.counts[i];
    fmt::format_to(std::back_inserter(text_), "{}_bucket{{{}le=\"{}\"}} {}\n", name_, before_le,
                   static_cast<double>(snapshot.bounds[i]) / unit, below);
  }
  fmt::format_to(std::back_inserter(text_), "{}_bucket{{{}le=\"+Inf\"}} {}\n", name_, before_le, snapshot.count);
  fmt::format_to(std::back_inserter(text_), "{}_sum{} {}\n", name_, with_braces(labels),
                 static_cast<double>(snapshot.sum) / unit);
  fmt::format_to(std::back_inserter(text_), "{}_count{} {}\n", name_, with_braces(labels), snapshot.count);
}

}  // namespace once::admin
