// Errors and warnings of the configuration checks, each with the position of its setting.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "config/prepare.hpp"

namespace once::config {

class Findings {
 public:
  using Names = std::initializer_list<std::string_view>;

  explicit Findings(const Config& config) : config_(config) {}

  // Told at the first of `settings` that stands in a file; without a place when none does: then a flag has set them, or
  // nothing has. Not told when one of them was refused as it was read: that mistake is told already, and this one may
  // only follow from it.
  void error(Names settings, std::string text);
  void warning(Names settings, std::string text);
  // The same for settings of a route: in it, or in the defaults, or else at the route itself.
  void error(const Route& route, Names settings, std::string text);
  void warning(const Route& route, Names settings, std::string text);

  // Each once, though several routes may have it from the defaults.
  Checked take();

 private:
  void add(ConfigErrors& to, Names settings, std::string text);
  void add(ConfigErrors& to, const Route& route, Names settings, std::string text);

  const Config& config_;
  Checked found_;
};

}  // namespace once::config
