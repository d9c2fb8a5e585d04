#include "config/reload.hpp"

#include <algorithm>
#include <array>

#include "config/settings.hpp"

namespace once {

bool reloads(std::string_view setting) {
  static constexpr std::array names = {std::string_view("upstreams"), std::string_view("log.level"),
                                       std::string_view("trusted_proxies"), std::string_view("same_hosts"),
                                       std::string_view("upgrades")};
  static constexpr std::array groups = {std::string_view("limits."), std::string_view("timeouts."),
                                        std::string_view("pool."),   std::string_view("jwt."),
                                        std::string_view("tls."),    std::string_view("upstream_tls.")};
  if (setting == "tls.listen") return false;
  return std::ranges::find(names, setting) != names.end() ||
         std::ranges::any_of(groups, [setting](std::string_view group) { return setting.starts_with(group); });
}

std::vector<std::string> needs_restart(const Config& running, const Config& wanted) {
  std::vector<std::string> names;
  for (const Setting<Config>& setting : process_settings()) {
    if (!reloads(setting.name) && setting.get(running) != setting.get(wanted)) names.emplace_back(setting.name);
  }
  // What is not shown, or lies in a file of the same name.
  if (running.store != wanted.store && std::ranges::find(names, "store") == names.end()) names.emplace_back("store");
  if (running.secret != wanted.secret) names.emplace_back("the secret");
  if (running.admin_token_secret != wanted.admin_token_secret) names.emplace_back("what admin_token names");
  if (running.sealing_secrets != wanted.sealing_secrets) names.emplace_back("what is in encryption.keys");
  return names;
}

}  // namespace once
