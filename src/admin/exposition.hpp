// Writes metrics in Prometheus' text format 0.0.4. Names are stable; docs/reference/metrics.md lists them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/histogram.hpp"

namespace once::admin {

constexpr double nanoseconds_per_second = 1e9;

// Escapes a label value; paths may contain any character.
std::string label_value(std::string_view text);

class Exposition {
 public:
  // Begins a family: its help and type; its samples follow.
  void family(std::string_view name, std::string_view type, std::string_view help);
  // `labels` are the text between the braces, or empty.
  void sample(std::string_view labels, std::uint64_t value);
  void sample(std::string_view labels, double value);
  // A family with one sample.
  void single(std::string_view name, std::string_view type, std::string_view help, std::uint64_t value);
  // Buckets, sum and count; values and bounds are divided by `unit` (1e9: nanoseconds as seconds).
  void histogram(std::string_view labels, const HistogramSnapshot& snapshot, double unit);

  std::string take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

}  // namespace once::admin
