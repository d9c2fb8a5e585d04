#include "gateway/identity/host.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "core/headers.hpp"
#include "core/host.hpp"

namespace once::gateway {

namespace {

// Whether the text is one quoted string and nothing else.
bool is_quoted_string(std::string_view text) {
  if (text.size() < 2 || text.front() != '"') return false;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') return i + 1 == text.size();
    if (text[i] == '\\') ++i;
  }
  return false;
}

bool is_forwarded_pair(std::string_view pair) {
  const std::size_t equals = pair.find('=');
  if (equals == std::string_view::npos || equals == 0) return false;
  const std::string_view name = pair.substr(0, equals);
  const std::string_view value = pair.substr(equals + 1);
  if (name.find_first_of(" \t\"\\") != std::string_view::npos) return false;
  return is_quoted_string(value) || value.find_first_of(" \t\"\\") == std::string_view::npos;
}

std::string unquoted(std::string_view text) {
  std::string out;
  if (text.size() < 2 || !text.starts_with('"') || !text.ends_with('"')) return std::string(text);
  text = text.substr(1, text.size() - 2);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    out.push_back(text[i]);
  }
  return out;
}

}  // namespace

std::size_t end_of_part(std::string_view text, std::string_view ends) {
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && ends.contains(text[i])) {
      return i;
    }
  }
  return text.size();
}

bool is_forwarded_list(std::string_view value) {
  while (!value.empty()) {
    const std::size_t end = end_of_part(value, ",;");
    const std::string_view pair = trim(value.substr(0, end));
    if (!pair.empty() && !is_forwarded_pair(pair)) return false;
    value.remove_prefix(std::min(end + 1, value.size()));
  }
  return true;
}

HostNames::HostNames(const std::vector<std::string>& groups) {
  for (const std::string& group : groups) {
    if (group == every_host) all_same_ = true;
    std::string first;
    for (const std::string_view name : split(group, ' ')) {
      if (name.empty()) continue;
      std::string scratch;
      const std::string normal(normalise_host(name, scratch));
      if (first.empty()) first = normal;
      first_of_.emplace(normal, first);
    }
  }
}

std::string_view HostNames::name_of(std::string_view host, std::string& scratch) const {
  if (all_same_) return every_host;
  const std::string_view normal = normalise_host(host, scratch);
  if (first_of_.empty()) return normal;
  const auto same = first_of_.find(normal);
  return same == first_of_.end() ? normal : std::string_view(same->second);
}

AskedHost::AskedHost(const http::RequestHead& head, const HostNames& names, PeerTrust peer) {
  parts_[0] = head.host.empty() && !names.all_same() ? no_host : names.name_of(head.host, host_);
  if (peer == PeerTrust::client) return;
  for (const http::Field& field : head.fields) {
    if (same_variable(field.name, "X-Forwarded-Host")) add_names(x_forwarded_, field.value, names);
    if (same_variable(field.name, "Forwarded")) add_forwarded(field.value, names);
  }
  parts_[1] = x_forwarded_;
  parts_[2] = forwarded_;
}

// The names are separated by line ends, which no header can contain.
void AskedHost::add_names(std::string& to, std::string_view list, const HostNames& names) {
  for (const std::string_view name : split(list, ',')) to.append(names.name_of(trim(name), scratch_)).append("\n");
}

void AskedHost::add_forwarded(std::string_view value, const HostNames& names) {
  while (!value.empty()) {
    const std::size_t end = end_of_part(value, ",;");
    const std::string_view parameter = trim(value.substr(0, end));
    value.remove_prefix(std::min(end + 1, value.size()));
    const std::size_t equals = parameter.find('=');
    if (equals == std::string_view::npos || !same_name(trim(parameter.substr(0, equals)), "host")) continue;
    const std::string name = unquoted(trim(parameter.substr(equals + 1)));
    forwarded_.append(names.name_of(name, scratch_)).append("\n");
  }
}

}  // namespace once::gateway
