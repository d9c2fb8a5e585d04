// What the journal costs: beside RocksDB on the same work (compare), and with many keys (scale). bench/journal runs
// both.
#include "bench/journal_bench.hpp"

#include <CLI/CLI.hpp>
#include <malloc.h>

#include "bench/measure.hpp"

namespace once::bench {
namespace {

int run(int argc, char** argv) {
  CLI::App app("What the journal costs.", "journal_bench");
  app.require_subcommand(1);
  CompareOptions comparing;
  CLI::App* const compare_command = app.add_subcommand("compare", "the journal beside RocksDB");
  compare_command->add_option("folder", comparing.folder, "an empty folder on the disk to be measured")->required();
  compare_command->add_option("--rounds", comparing.rounds)->capture_default_str();
  compare_command->add_option("--seconds", comparing.seconds, "of every piece")->capture_default_str();
  compare_command->add_option("--batches", comparing.batches)->delimiter(',')->capture_default_str();

  ScaleOptions scaling;
  CLI::App* const scale_command = app.add_subcommand("scale", "the journal with few and with many keys");
  scale_command->add_option("folder", scaling.folder, "an empty folder on the disk to be measured")->required();
  scale_command->add_option("--few", scaling.few, "keys")->capture_default_str();
  scale_command->add_option("--many", scaling.many, "keys")->capture_default_str();
  scale_command->add_option("--requests", scaling.requests, "of every piece")->capture_default_str();
  scale_command->add_option("--batch", scaling.batch)->capture_default_str();
  scale_command->add_option("--rounds", scaling.rounds)->capture_default_str();
  scale_command->add_option("--restarts", scaling.restarts)->capture_default_str();

  FillOptions filling;
  CLI::App* const fill_command = app.add_subcommand("fill", "a journal with many keys, for bench/compare --keys");
  fill_command->add_option("folder", filling.folder)->required();
  fill_command->add_option("--keys", filling.keys)->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  if (compare_command->parsed()) {
    compare(comparing);
    return 0;
  }
  if (fill_command->parsed()) {
    fill_journal(filling);
    return 0;
  }
  return scale(scaling) ? 0 : 1;
}

}  // namespace
}  // namespace once::bench

int main(int argc, char** argv) {
  // As the gateway does: what is measured is its memory.
  ::mallopt(M_ARENA_MAX, 1);
  ::mallopt(M_TOP_PAD, 16 << 20);
  return once::bench::run(argc, argv);
}
