#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "base/sometimes.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "config/codec.hpp"
#include "sim/branches.hpp"
#include "sim/setup.hpp"
#include "sim/simulation.hpp"

namespace once::cli {

namespace {

struct SimulateOptions {
  std::uint64_t seed = 1;
  std::uint64_t runs = 1;
  std::string length_text;
  Duration length{};  // 0: no time limit, only `runs`
  unsigned threads = 0;
  std::string store_name;
  std::optional<sim::StoreKind> store;  // nullopt: drawn from each seed
  std::string layer_name;
  std::optional<sim::Layer> layer;  // likewise
  bool trace = false;
  bool branches = false;
};

constexpr auto progress_every = std::chrono::seconds(10);
// Short enough to type, and more seeds than can ever be run.
constexpr std::uint64_t most_random_seed = 1'000'000'000'000;

struct Totals {
  std::uint64_t runs = 0;
  std::uint64_t executions = 0;
  std::uint64_t replays = 0;
  std::uint64_t crashes = 0;
  std::uint64_t by_hand = 0;
  std::optional<std::uint64_t> failed_seed;

  void add(std::uint64_t seed, const sim::Report& report) {
    ++runs;
    executions += report.executions;
    replays += report.replays;
    crashes += report.crashes;
    by_hand += report.by_hand;
    if (!report.violations.empty()) failed_seed = std::min(failed_seed.value_or(seed), seed);
  }
};

sim::Layer layer_of(std::uint64_t seed, const SimulateOptions& options) {
  return options.layer.value_or(sim::draw_layer(seed));
}

bool is_one_seed(const SimulateOptions& options) {
  return options.runs == 1 && options.length == Duration::zero();
}

std::string seeds_of(const SimulateOptions& options) {
  if (is_one_seed(options)) return fmt::format("seed {}", options.seed);
  if (options.length > Duration::zero()) return fmt::format("seeds from {} on", options.seed);
  return fmt::format("seeds {} to {}", options.seed, options.seed + options.runs - 1);
}

std::string random_seed() {
  SystemRandom random;
  std::array<std::uint8_t, sizeof(std::uint64_t)> bytes{};
  random.fill(bytes);
  return fmt::format("{}", std::bit_cast<std::uint64_t>(bytes) % most_random_seed);
}

// Without this check a negative number would be read as a very large one.
std::string whole_number(const std::string& text) {
  return text.find_first_not_of("0123456789") == std::string::npos ? "" : fmt::format("{} is not a whole number", text);
}

void print_trace(const sim::Report& report) {
  std::string text;
  for (const std::string& line : report.trace) text += line + "\n";
  print(text);
}

void print_violations(std::uint64_t seed, const sim::Report& report, const SimulateOptions& options) {
  std::string text = "\n";
  for (const std::string& violation : report.violations) text += fmt::format("violated: {}\n", violation);
  std::string store = options.store ? fmt::format(" --store {}", options.store_name) : std::string();
  if (options.layer) store += fmt::format(" --layer {}", options.layer_name);
  const std::string among = is_one_seed(options) ? std::string() : fmt::format(" of {}", seeds_of(options));
  text +=
      fmt::format("seed {}{} failed. Repeat it with: once simulate --seed {}{} --trace\n", seed, among, seed, store);
  print(text);
}

// Runs seeds in order on several threads; stops at the first that fails.
class Runs {
 public:
  explicit Runs(const SimulateOptions& options) : options_(options) {}

  Totals all() {
    const unsigned count = options_.threads != 0 ? options_.threads : std::max(1U, std::thread::hardware_concurrency());
    {
      std::vector<std::jthread> threads;
      for (unsigned i = 0; i < count; ++i) threads.emplace_back([this] { some(); });
    }
    return totals_;
  }

  std::chrono::nanoseconds took() const { return monotonic_now() - begun_; }

 private:
  void some() {
    for (std::uint64_t i = next_.fetch_add(1); wanted(i) && !stop_; i = next_.fetch_add(1)) {
      const std::uint64_t seed = options_.seed + i;
      const sim::Report report = sim::simulate(seed, sim::KeepTrace::no, options_.store, layer_of(seed, options_));
      const std::scoped_lock lock(mutex_);
      totals_.add(seed, report);
      report_progress();
      if (totals_.failed_seed) stop_ = true;
    }
  }

  bool wanted(std::uint64_t run) const {
    return options_.length > Duration::zero() ? took() < options_.length : run < options_.runs;
  }
  void report_progress() {
    if (took() < reported_at_ + progress_every) return;
    reported_at_ = took();
    print_error(fmt::format("{} runs, {} s", totals_.runs,
                            std::chrono::duration_cast<std::chrono::seconds>(reported_at_).count()));
  }

  const SimulateOptions& options_;
  const std::chrono::nanoseconds begun_ = monotonic_now();
  std::chrono::nanoseconds reported_at_{};
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  Totals totals_;
};

void print_setup(std::uint64_t seed, const SimulateOptions& options) {
  print(fmt::format("seed {}\n{}", seed, to_text(sim::draw_setup(seed, options.store, layer_of(seed, options)))));
}

int print_totals(const Totals& totals, std::chrono::nanoseconds took, const SimulateOptions& options) {
  print(
      fmt::format("{}: {} runs in {} s, {} executions, {} replays, {} crashes, {} changes by operators: no violation\n",
                  seeds_of(options), totals.runs, std::chrono::duration_cast<std::chrono::seconds>(took).count(),
                  totals.executions, totals.replays, totals.crashes, totals.by_hand));
  return 0;
}

int print_branches(const SimulateOptions& options) {
  const auto unreachable = sim::unreachable_branches();
  const sim::BranchReport report = sim::judge_branches(Branches::counts(), unreachable);
  if (options.branches) print(details_of(report, unreachable));
  print(summary_of(report));
  return options.branches && !report.complete() ? 1 : 0;
}

int simulate_one(const SimulateOptions& options) {
  const auto begun = monotonic_now();
  print_setup(options.seed, options);
  const sim::Report report =
      sim::simulate(options.seed, sim::KeepTrace::yes, options.store, layer_of(options.seed, options));
  if (options.trace || !report.violations.empty()) print_trace(report);
  if (!report.violations.empty()) {
    print_violations(options.seed, report, options);
    return 1;
  }
  Totals totals;
  totals.add(options.seed, report);
  return print_totals(totals, monotonic_now() - begun, options);
}

int simulate_many(const SimulateOptions& options) {
  print(seeds_of(options) + "\n");
  Runs runs(options);
  const Totals totals = runs.all();
  if (!totals.failed_seed) {
    print_totals(totals, runs.took(), options);
    return print_branches(options);
  }
  const sim::Report report =
      sim::simulate(*totals.failed_seed, sim::KeepTrace::yes, options.store, layer_of(*totals.failed_seed, options));
  print_setup(*totals.failed_seed, options);
  print_trace(report);
  print_violations(*totals.failed_seed, report, options);
  return 1;
}

std::string all_stores() {
  std::string names;
  for (const auto& [name, kind] : sim::store_names) names.append(names.empty() ? "" : ",").append(name);
  return names;
}

int check_and_simulate(SimulateOptions& options) {
  if (!options.length_text.empty()) {
    const auto length = duration_codec({std::chrono::seconds(1), std::chrono::hours(1000)}).parse(options.length_text);
    if (!length) {
      print_error("--for: " + length.error());
      return 2;
    }
    options.length = *length;
  }
  if (options.runs == 0) {
    print_error("--runs: at least 1");
    return 2;
  }
  for (const auto& [name, kind] : sim::store_names) {
    if (name == options.store_name) options.store = kind;
  }
  if (!options.store_name.empty() && !options.store) {
    print_error(fmt::format("--store: {} is not one of {}", options.store_name, all_stores()));
    return 2;
  }
  for (const auto& [name, layer] : sim::layer_names) {
    if (name == options.layer_name) options.layer = layer;
  }
  if (!options.layer_name.empty() && !options.layer) {
    print_error(fmt::format("--layer: {} is not one of exchanges,bytes", options.layer_name));
    return 2;
  }
  if (options.layer == sim::Layer::bytes && options.store == sim::StoreKind::sql_transaction) {
    print_error("--store: sql-transaction needs --layer exchanges");
    return 2;
  }
  if (is_one_seed(options) && options.branches) {
    print_error("--branches: needs --runs or --for");
    return 2;
  }
  if (is_one_seed(options)) return simulate_one(options);
  if (options.trace) {
    print_error("--trace: a trace needs a single seed; leave out --runs and --for");
    return 2;
  }
  return simulate_many(options);
}

}  // namespace

Run add_simulate(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "simulate", "Run gateways, stores, clients, operators and faults in virtual time, and check every promise");
  const auto options = std::make_shared<SimulateOptions>();
  command
      ->add_option("--seed", options->seed,
                   "The first seed, which determines everything; `random` picks one; the default is 1")
      ->type_name("N")
      ->check(whole_number)
      ->transform([](const std::string& text) { return text == "random" ? random_seed() : text; });
  CLI::Option* runs = command->add_option("--runs", options->runs, "How many seeds: N to N + M - 1; the default is 1");
  runs->type_name("M")->check(whole_number);
  command->add_option("--for", options->length_text, "Run seeds from --seed on for this long, such as 10m")
      ->type_name("DURATION")
      ->excludes(runs);
  command->add_option("--threads", options->threads, "Concurrent seeds; the default is one per core")->type_name("N");
  command->add_option("--store", options->store_name, "Use this store for every seed, instead of a random one")
      ->type_name("{" + all_stores() + "}");
  command
      ->add_option("--layer", options->layer_name,
                   "The layer that every seed simulates: exchanges (parsed requests) or bytes (connections of clients "
                   "and backends); by default one seed in sixteen uses bytes")
      ->type_name("{exchanges,bytes}");
  command->add_flag("--trace", options->trace, "Print every step; with one seed");
  command->add_flag("--branches", options->branches,
                    "Print how often each branch of interest was taken; fail if one that can be reached was not");
  command->footer(
      "The seeds are printed first. A seed that violates a promise is printed with its setup, its history and the\n"
      "command that repeats it, and ends the run.\n"
      "Exit codes: 0 no violation, 1 a violation, or with --branches a branch that no seed has taken, 2 wrong "
      "options.");
  return [options] { return check_and_simulate(*options); };
}

}  // namespace once::cli
