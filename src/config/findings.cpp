#include "config/findings.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace once::config {

namespace {

void add_new(ConfigErrors& to, ConfigError error) {
  if (std::ranges::find(to, error) == to.end()) to.push_back(std::move(error));
}

ConfigError placed(const Where& where, std::string text) {
  return {where.file, where.line, where.column, std::move(text)};
}

}  // namespace

void Findings::add(ConfigErrors& to, Names settings, std::string text) {
  if (std::ranges::any_of(settings, [&](std::string_view name) { return config_.refused.contains(name); })) return;
  for (const std::string_view name : settings) {
    const auto place = config_.places.find(name);
    if (place != config_.places.end()) return add_new(to, placed(place->second, std::move(text)));
  }
  add_new(to, placed({}, std::move(text)));
}

void Findings::add(ConfigErrors& to, const Route& route, Names settings, std::string text) {
  const std::string sections[] = {fmt::format("routes.{}.", &route - config_.routes.data()), "defaults."};
  const Where* where = nullptr;
  for (const std::string& section : sections) {
    for (const std::string_view name : settings) {
      const std::string full_name = section + std::string(name);
      if (config_.refused.contains(full_name)) return;
      const auto place = config_.places.find(full_name);
      if (where == nullptr && place != config_.places.end()) where = &place->second;
    }
  }
  add_new(to, placed(where != nullptr ? *where : route.where, std::move(text)));
}

void Findings::error(Names settings, std::string text) {
  add(found_.errors, settings, std::move(text));
}

void Findings::warning(Names settings, std::string text) {
  add(found_.warnings, settings, std::move(text));
}

void Findings::error(const Route& route, Names settings, std::string text) {
  add(found_.errors, route, settings, std::move(text));
}

void Findings::warning(const Route& route, Names settings, std::string text) {
  add(found_.warnings, route, settings, std::move(text));
}

Checked Findings::take() {
  return std::move(found_);
}

}  // namespace once::config
