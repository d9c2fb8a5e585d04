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

  // Reported at the first of `settings` that is in a file; without a position if none is, as when a flag has set it.
  // Not reported if one of them was refused when it was read: this mistake may only be a consequence of that one.
  void error(Names settings, std::string text);
  void warning(Names settings, std::string text);
  // The same for settings of a route. Its position is in the route, else in the defaults, else the route itself.
  void error(const Route& route, Names settings, std::string text);
  void warning(const Route& route, Names settings, std::string text);

  // The findings without duplicates: several routes may have the same one from the defaults.
  Checked take();

 private:
  void add(ConfigErrors& to, Names settings, std::string text);
  void add(ConfigErrors& to, const Route& route, Names settings, std::string text);

  const Config& config_;
  Checked found_;
};

}  // namespace once::config
