#include "sim/loose_paths.hpp"

#include <algorithm>
#include <cctype>
#include <vector>

#include <fmt/format.h>

namespace once::sim {

namespace {

constexpr unsigned habits_of_backends = 32;  // every combination of five

struct Habits {
  explicit Habits(unsigned bits)
      : escaped_slash((bits & 1U) != 0),
        backslash((bits & 2U) != 0),
        strips((bits & 4U) != 0),
        strips_to_escaped_slash((bits & 8U) != 0),
        strips_to_backslash((bits & 16U) != 0) {}

  bool escaped_slash;  // %2F is a slash
  bool backslash;      // a \ is a slash
  bool strips;         // removes text from a ; to the next slash
  bool strips_to_escaped_slash;
  bool strips_to_backslash;
};

bool is_escaped_slash(std::string_view rest) {
  return rest.starts_with("%2f") || rest.starts_with("%2F");
}

// Escapes of everything but a slash.
std::string decoded(std::string_view path) {
  std::string out;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const bool escape = path[i] == '%' && i + 2 < path.size() && std::isxdigit(path[i + 1]) != 0 &&
                        std::isxdigit(path[i + 2]) != 0 && !is_escaped_slash(path.substr(i));
    if (!escape) {
      out += path[i];
      continue;
    }
    out += static_cast<char>(std::stoi(std::string(path.substr(i + 1, 2)), nullptr, 16));
    i += 2;
  }
  return out;
}

std::string with_habits(std::string_view path, const Habits& habits) {
  std::string out;
  for (std::size_t i = 0; i < path.size();) {
    const std::string_view rest = path.substr(i);
    if (habits.strips && rest.front() == ';') {
      const auto ends = [&](std::string_view at) {
        return at.front() == '/' || (habits.strips_to_escaped_slash && is_escaped_slash(at)) ||
               (habits.strips_to_backslash && at.front() == '\\');
      };
      while (i < path.size() && !ends(path.substr(i))) ++i;
    } else if (habits.escaped_slash && is_escaped_slash(rest)) {
      out += '/';
      i += 3;
    } else {
      out += habits.backslash && rest.front() == '\\' ? '/' : rest.front();
      ++i;
    }
  }
  return out;
}

std::vector<std::string> resolved(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else if (!part.empty() && part != ".") {
      parts.emplace_back(part);
    }
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return parts;
}

bool is_required(std::string_view path) {
  const std::string text = decoded(path);
  for (unsigned bits = 0; bits < habits_of_backends; ++bits) {
    const std::vector<std::string> parts = resolved(with_habits(text, Habits(bits)));
    if (parts.size() >= 2 && parts.front() == required_folder) return true;
  }
  return false;
}

}  // namespace

bool may_be_read_as_required(std::string_view target) {
  constexpr std::string_view slashes = "/\\";
  const std::string_view path = target.substr(0, target.find('?'));
  if (is_required(path)) return true;
  const std::size_t host = std::min(path.find_first_not_of(slashes), path.size());
  if (host < 2) return false;
  return is_required(path.substr(std::min(path.find_first_of(slashes, host), path.size())));
}

std::string draw_evading_target(Draw& draw, unsigned caller) {
  const auto slash = [&draw] { return draw.one_of({"/", "/", "%2f", "%2F", "\\", "%5c", ";p/", ";p%2f", ";p\\"}); };
  const auto dots = [&draw] { return draw.one_of({"..", "..", "%2e%2e", ".%2E", "..;p"}); };
  std::string target = draw.one_of({"/pass", "/pass", "/pass/x", "//host", "/\\host", ""});
  for (std::uint64_t up = draw.below(3); up > 0; --up) target.append(slash()).append(dots());
  if (target.empty()) target = "/";
  if (!target.ends_with('/')) target += slash();
  target.append(draw.one_of({"pay", "pay", "p%61y", "pay;p"}));
  return target + fmt::format("{}{}", slash(), caller);
}

}  // namespace once::sim
