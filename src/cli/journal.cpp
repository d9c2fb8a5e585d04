#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "store/journal/format.hpp"
#include "store/journal/repair.hpp"
#include "store/journal/system_disk.hpp"

namespace once::cli {

namespace {

struct JournalOptions {
  std::string folder = "./once-data/journal";
  bool yes = false;
};

std::string plural(std::uint64_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

void print_segment(const journal::SegmentReport& segment) {
  std::string text = fmt::format("{}  {}, {}: {}\n", segment.file, plural(segment.bytes, "byte"),
                                 plural(segment.records, "record"), segment.damage.empty() ? "intact" : "DAMAGED");
  for (const journal::Damage& damage : segment.damage) {
    text += fmt::format("  offset {}: {}\n", damage.offset, damage.what);
  }
  if (segment.cut > 0) {
    text += fmt::format("  {} at the end belong to an interrupted write\n", plural(segment.cut, "byte"));
  }
  if (!segment.end_is_known) {
    text += "  The process did not stop cleanly: after a crash, records that were cut off at the end cannot be seen.\n";
  }
  print(text);
}

// Prints damage outside the segments that could be read.
void print_missing(const journal::Report& report) {
  for (const journal::Damage& damage : report.damage) {
    if (damage.offset == 0) print(fmt::format("{}: {}\n", damage.file, damage.what));
  }
}

bool there_is_a_journal(journal::Disk& disk, const std::string& folder) {
  const auto names = disk.list();
  if (!names) {
    print_error(names.error().detail);
    return false;
  }
  const bool had_one = journal::parse_note(disk.note()).has_value();
  const bool found = had_one || std::ranges::any_of(*names, [](const auto& name) { return name.contains(".segment"); });
  if (!found) print_error(fmt::format("there is no journal in {}", folder));
  return found;
}

int verify(const JournalOptions& options) {
  journal::SystemDisk disk(options.folder);
  if (!there_is_a_journal(disk, options.folder)) return 2;
  const auto report = journal::verify(disk, print_segment);
  if (!report) {
    print_error(report.error().detail);
    return 2;
  }
  print_missing(*report);
  print(fmt::format("{}, {}: {}\n", plural(report->segments, "segment"), plural(report->records, "record"),
                    report->damage.empty() ? "intact" : "damaged; `once journal repair` keeps the intact records"));
  return report->damage.empty() ? 0 : 1;
}

bool confirmed() {
  print(
      "Repair drops damaged records. An operation whose record is lost may be executed again by a retry.\n"
      "Damaged files are kept next to the journal as .damaged. Type yes to continue: ");
  std::string answer;
  char letter = 0;
  while (::read(STDIN_FILENO, &letter, 1) == 1 && letter != '\n') answer += letter;
  return answer == "yes";
}

int repair(const JournalOptions& options) {
  journal::SystemDisk disk(options.folder);
  if (!there_is_a_journal(disk, options.folder)) return 2;
  if (!options.yes && ::isatty(STDIN_FILENO) == 0) {
    print_error("there is no terminal to confirm this; use --yes");
    return 2;
  }
  if (!options.yes && !confirmed()) {
    print_error("nothing was changed");
    return 2;
  }
  const SystemClock clock;
  SystemRandom random;
  const auto report = journal::repair(disk, clock, random, print_segment);
  if (!report) {
    print_error(report.error().detail);
    return 2;
  }
  print_missing(*report);
  if (report->damage.empty()) {
    print("The journal is intact; nothing was changed.\n");
    return 0;
  }
  print(fmt::format(
      "Kept: {}. Lost: the records listed above. An operation with a lost record is forgotten, or has the state of "
      "its previous record; if the claim was lost, a retry executes it again.\n",
      plural(report->records, "record")));
  return 0;
}

CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& what,
                      const std::shared_ptr<JournalOptions>& options) {
  CLI::App* command = parent.add_subcommand(name, what);
  command->add_option("folder", options->folder, "The folder of the journal; the default is ./once-data/journal")
      ->type_name("FOLDER");
  return command;
}

}  // namespace

Run add_journal(CLI::App& app) {
  CLI::App* command = app.add_subcommand("journal", "Check a journal, or repair a damaged one");
  command->require_subcommand(1);
  const auto options = std::make_shared<JournalOptions>();
  const CLI::App* check = add_command(*command, "verify", "Read every record and report damage", options);
  CLI::App* mend = add_command(*command, "repair", "Keep every intact record and report what was lost", options);
  mend->add_flag("--yes", options->yes, "Do not ask");
  command->footer(
      "The gateway must not be running. A write that a crash interrupted is not damage: no client saw it. Where the "
      "journal ends is known if the gateway was stopped; after a crash, it is unknown whether a file was cut off "
      "at the end.\n"
      "Exit codes: 0 intact, or repaired; 1 verify found damage; 2 failed.");
  return [options, check] { return check->parsed() ? verify(*options) : repair(*options); };
}

}  // namespace once::cli
