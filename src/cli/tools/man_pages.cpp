#include "cli/tools/man_pages.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/text.hpp"
#include "cli/command_tree.hpp"
#include "config/settings.hpp"

namespace once::cli {

namespace {

constexpr std::string_view exit_codes_mark = "Exit codes: ";

// Escapes text for roff: no macro at the start of a line, and hyphens stay hyphens.
std::string escaped(std::string_view text) {
  std::string out;
  bool at_line_start = true;
  for (const char c : text) {
    if (at_line_start && (c == '.' || c == '\'')) out += "\\&";
    at_line_start = c == '\n';
    switch (c) {
      case '\\': out += "\\e"; break;
      case '-': out += "\\-"; break;
      case '^': out += "\\(ha"; break;
      case '~': out += "\\(ti"; break;
      case '`': out += "\\(ga"; break;
      case '\'': out += "\\(aq"; break;
      default: out += c;
    }
  }
  return out;
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

std::string title(std::string_view name, int section, std::string_view date) {
  return fmt::format(".TH {} {} \"{}\" \"once {}\" \"Once\"\n", upper(escaped(name)), section, date, ONCE_VERSION);
}

// The full command as typed: "once journal verify".
std::string typed(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : typed(*parent) + " " + command.get_name();
}

std::string page_name(const CLI::App& command) {
  std::string name = typed(command);
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string value_name(const CLI::Option& option) {
  return takes_value(option) ? fmt::format(" \\fI{}\\fR", escaped(option.get_type_name())) : "";
}

std::string synopsis(const CLI::App& command) {
  std::string out = fmt::format("\\fB{}\\fR", escaped(typed(command)));
  if (!shown_options(command).empty()) out += " [\\fIOPTIONS\\fR]";
  for (const CLI::Option* option : positionals(command)) {
    const std::string name = fmt::format("\\fI{}\\fR", escaped(option->get_type_name()));
    out += option->get_required() ? " " + name : fmt::format(" [{}]", name);
  }
  if (!shown_commands(command).empty()) out += " \\fICOMMAND\\fR";
  return out + "\n";
}

void add_paragraphs(std::string& out, std::string_view text) {
  for (const std::string_view line : split(text, '\n')) {
    if (!trim(line).empty()) out += ".PP\n" + escaped(trim(line)) + "\n";
  }
}

void add_options(std::string& out, const CLI::App& command) {
  for (const CLI::Option* option : positionals(command)) {
    fmt::format_to(std::back_inserter(out), ".TP\n\\fI{}\\fR\n{}.\n", escaped(option->get_type_name()),
                   escaped(option->get_description()));
  }
  for (const CLI::Option* option : shown_options(command)) {
    std::vector<std::string> names;
    for (const std::string& name : spellings(*option)) names.push_back(fmt::format("\\fB{}\\fR", escaped(name)));
    fmt::format_to(std::back_inserter(out), ".TP\n{}{}\n{}.\n", fmt::join(names, ", "), value_name(*option),
                   escaped(option->get_description()));
  }
}

// A text such as "0 well, 1 not" becomes a paragraph; text with one line per code becomes a list.
void add_exit_codes(std::string& out, std::string_view text) {
  out += ".SH EXIT STATUS\n";
  if (!text.contains('\n')) {
    out += escaped(text) + "\n";
    return;
  }
  out += ".nf\n";
  for (const std::string_view line : split(text, '\n')) out += escaped(trim(line)) + "\n";
  out += ".fi\n";
}

// Nested commands are described on the same page, because they have none of their own.
void add_inner_commands(std::string& out, const CLI::App& command) {
  for (const CLI::App* inner : shown_commands(command)) {
    fmt::format_to(std::back_inserter(out), ".SS {}\n{}.\n.PP\n{}", escaped(typed(*inner)),
                   escaped(inner->get_description()), synopsis(*inner));
    add_options(out, *inner);
    std::string footer = inner->get_footer();
    if (footer != command.get_footer()) add_paragraphs(out, footer);
    add_inner_commands(out, *inner);
  }
}

std::string see_also(const CLI::App& root, const CLI::App& command) {
  std::vector<std::string> names;
  if (&root != &command) names.emplace_back("\\fBonce\\fR(1)");
  if (&root == &command) {
    for (const CLI::App* other : shown_commands(root)) {
      names.push_back(fmt::format("\\fB{}\\fR(1)", escaped(page_name(*other))));
    }
  }
  names.emplace_back("\\fBonce.yaml\\fR(5)");
  std::ranges::sort(names);
  return fmt::format(".SH SEE ALSO\n{}\n", fmt::join(names, ",\n"));
}

Page command_page(const CLI::App& root, const CLI::App& command, std::string_view date) {
  std::string out = title(page_name(command), 1, date);
  std::string what = command.get_description();
  if (what.ends_with('.')) what.pop_back();
  fmt::format_to(std::back_inserter(out), ".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}", escaped(page_name(command)),
                 escaped(what), synopsis(command));
  const std::string footer = command.get_footer();
  const std::size_t codes = std::min(footer.find(exit_codes_mark), footer.size());
  out += ".SH DESCRIPTION\n" + escaped(what) + ".\n";
  add_paragraphs(out, std::string_view(footer).substr(0, codes));
  if (&root == &command) {
    out += ".SH COMMANDS\n";
    for (const CLI::App* inner : shown_commands(root)) {
      fmt::format_to(std::back_inserter(out), ".TP\n\\fB{}\\fR(1)\n{}.\n", escaped(page_name(*inner)),
                     escaped(inner->get_description()));
    }
  }
  out += ".SH OPTIONS\n";
  add_options(out, command);
  if (&root != &command && !shown_commands(command).empty()) {
    out += ".SH COMMANDS\n";
    add_inner_commands(out, command);
  }
  if (codes < footer.size()) add_exit_codes(out, std::string_view(footer).substr(codes + exit_codes_mark.size()));
  out += see_also(root, command);
  return {.name = page_name(command) + ".1", .text = std::move(out)};
}

template <class Target>
void add_settings(std::string& out, const Settings<Target>& table, const Target& defaults) {
  for (const Setting<Target>& setting : table) {
    const std::string range = setting.range.empty() ? "" : ", " + setting.range;
    fmt::format_to(std::back_inserter(out), ".TP\n\\fB{}\\fR\n{}\nExpected: {}{}.\n", escaped(setting.name),
                   escaped(setting.help), escaped(setting.expected), escaped(range));
    if (setting.shape == Shape::map) continue;
    const std::string value = show_values(setting.shape, setting.get(defaults));
    if (!value.empty()) fmt::format_to(std::back_inserter(out), "Default: {}.\n", escaped(value));
  }
}

Page settings_page(std::string_view date) {
  std::string out = title("once.yaml", 5, date);
  out += ".SH NAME\nonce.yaml \\- configuration of the gateway once\n.SH DESCRIPTION\n";
  out +=
      escaped(
          "The file that once serve, once check and once sweep read with --config. It is YAML. A setting such as "
          "key.header is written key: {header: X}. Unknown settings are mistakes; once check finds all of them, each "
          "with its line and column.") +
      "\n";
  add_paragraphs(out,
                 "Durations are a number and ms, s, m, h or d. Sizes are bytes, or a number and KB, MB, GB, KiB, "
                 "MiB, GiB or TiB.\n"
                 "Values are applied in this order, and later ones win: the built-in defaults, the dialect of "
                 "defaults, the settings of defaults, the dialect of the route, the settings of the route, and "
                 "options of the command line.\n"
                 "The secret for operation ids is read from ONCE_SECRET, or else from secret_file; at least 16 "
                 "bytes. It is required with environment: production, or with a store that gateways share.");
  const Config config = builtin_config();
  out += ".SH THE PROCESS\n";
  add_settings(out, process_settings(), config);
  out += ".SH AN UPSTREAM\nEvery entry of upstreams is a URL, or a map of these settings with at least servers.\n";
  add_settings(out, upstream_settings(), Upstream());
  out +=
      ".SH A ROUTE\n"
      "Every item of routes has these settings, and may have any setting of the next section. The first match is "
      "used.\n";
  add_settings(out, route_settings(), Route());
  out += ".SH POLICY\nSettings for defaults and for every route.\n";
  add_settings(out, policy_settings(), config.defaults);
  out +=
      ".SH FILES\n"
      ".TP\n"
      "\\fI/etc/once/once.yaml\\fR\n"
      "The configuration of the Debian package.\n"
      ".TP\n"
      "\\fI/usr/share/once/once.schema.json\\fR\n"
      "The same as a JSON schema, for editors.\n";
  out +=
      ".SH SEE ALSO\n\\fBonce\\fR(1),\n\\fBonce\\-check\\fR(1),\n\\fBonce\\-config\\fR(1),\n\\fBonce\\-serve\\fR(1)\n";
  return {.name = "once.yaml.5", .text = std::move(out)};
}

}  // namespace

std::vector<Page> manual(const CLI::App& app, std::string_view date) {
  std::vector<Page> pages = {command_page(app, app, date)};
  for (const CLI::App* command : shown_commands(app)) pages.push_back(command_page(app, *command, date));
  pages.push_back(settings_page(date));
  return pages;
}

}  // namespace once::cli
