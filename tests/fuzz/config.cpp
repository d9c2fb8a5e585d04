// Configuration files: taken or refused with a place and a reason, always the same, and every setting that was taken
// can be written down and set again. The whole input is the file.
#include <algorithm>

#include "config/load.hpp"
#include "config/prepare.hpp"
#include "config/settings.hpp"
#include "tests/fuzz/input.hpp"

namespace {

void check_errors(const once::config::ConfigErrors& errors, std::string_view text) {
  const auto lines = static_cast<int>(std::ranges::count_if(text, [](char c) { return c == '\n' || c == '\r'; })) + 1;
  for (const once::config::ConfigError& error : errors) {
    ONCE_ASSERT(!error.text.empty() && !once::config::to_string(error).empty());
    ONCE_ASSERT(error.line >= 0 && error.line <= lines + 1 && error.column >= 0);
  }
}

// What is written down of `from` gives the same in `to`, whatever stood there.
template <class Target>
void check_settings(const once::config::Settings<Target>& table, const Target& from, Target to) {
  for (const once::config::Setting<Target>& setting : table) {
    if (setting.shape == once::config::Shape::map) continue;
    const once::config::Values values = setting.get(from);
    if (values.empty() || std::ranges::find(values, "") != values.end()) continue;  // not set
    ONCE_ASSERT(setting.set(to, values).has_value());
    ONCE_ASSERT(setting.get(to) == values);
  }
}

}  // namespace

FUZZ(bytes) {
  auto config = once::config::parse(bytes, "once.yaml");
  const auto again = once::config::parse(bytes, "once.yaml");
  ONCE_ASSERT(config.has_value() == again.has_value());
  if (!config) {
    ONCE_ASSERT(!config.error().empty() && config.error().size() == again.error().size());
    check_errors(config.error(), bytes);
    return;
  }
  check_settings(once::config::process_settings(), *config, once::config::builtin_config());
  check_settings(once::config::policy_settings(), config->defaults, once::config::builtin_policy());
  for (const once::gateway::Route& route : config->routes) {
    check_settings(once::config::policy_settings(), route.policy, once::config::builtin_policy());
    check_settings(once::config::route_settings(), route, once::gateway::Route());
  }
  const once::config::Checked checked = once::config::check(*config);
  check_errors(checked.errors, bytes);
  check_errors(checked.warnings, bytes);
  ONCE_ASSERT(!config->routes.empty());
}
