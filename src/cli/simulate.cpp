#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "config/codec.hpp"
#include "sim/setup.hpp"
#include "sim/simulation.hpp"

namespace once::cli {

namespace {

struct SimulateOptions {
  std::uint64_t seed = 1;
  std::uint64_t runs = 1;
  std::string length_text;
  Duration length{};  // 0: as many as `runs`
  unsigned threads = 0;
  std::string store_name;
  std::optional<sim::StoreKind> store;  // none: as each seed draws it
  bool trace = false;
};

constexpr auto progress_every = std::chrono::seconds(10);

struct Totals {
  std::uint64_t runs = 0;
  std::uint64_t executions = 0;
  std::uint64_t replays = 0;
  std::uint64_t crashes = 0;
  std::uint64_t by_hand = 0;
  std::optional<std::uint64_t> failed_seed;
};

void print_failure(std::uint64_t seed, const SimulateOptions& options) {
  const sim::Report report = sim::simulate(seed, sim::KeepTrace::yes, options.store);
  std::string text = fmt::format("seed {}\n{}\n", seed, to_text(sim::draw_setup(seed, options.store)));
  for (const std::string& line : report.trace) text += line + "\n";
  text += "\n";
  for (const std::string& violation : report.violations) text += fmt::format("violated: {}\n", violation);
  const std::string store = options.store ? fmt::format(" --store {}", options.store_name) : std::string();
  text += fmt::format("replay: once simulate --seed {}{} --trace\n", seed, store);
  print(text);
}

// Seeds one after the other, by several threads; stops at the first that fails.
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
      const sim::Report report = sim::simulate(seed, sim::KeepTrace::no, options_.store);
      const std::scoped_lock lock(mutex_);
      ++totals_.runs;
      totals_.executions += report.executions;
      totals_.replays += report.replays;
      totals_.crashes += report.crashes;
      totals_.by_hand += report.by_hand;
      tell_progress();
      if (report.violations.empty()) continue;
      totals_.failed_seed = std::min(totals_.failed_seed.value_or(seed), seed);
      stop_ = true;
    }
  }

  bool wanted(std::uint64_t run) const {
    return options_.length > Duration::zero() ? took() < options_.length : run < options_.runs;
  }
  void tell_progress() {
    if (took() < told_ + progress_every) return;
    told_ = took();
    print_error(
        fmt::format("{} runs, {} s", totals_.runs, std::chrono::duration_cast<std::chrono::seconds>(told_).count()));
  }

  const SimulateOptions& options_;
  const std::chrono::nanoseconds begun_ = monotonic_now();
  std::chrono::nanoseconds told_{};
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  Totals totals_;
};

int simulate(const SimulateOptions& options) {
  if (options.runs == 1 && options.length == Duration::zero()) {
    print(fmt::format("seed {}\n{}", options.seed, to_text(sim::draw_setup(options.seed, options.store))));
    if (options.trace) {
      const sim::Report report = sim::simulate(options.seed, sim::KeepTrace::yes, options.store);
      for (const std::string& line : report.trace) print(line + "\n");
    }
  }
  Runs runs(options);
  const Totals totals = runs.all();
  if (totals.failed_seed) {
    if (!options.trace) print_failure(*totals.failed_seed, options);
    return 1;
  }
  print(fmt::format("{} runs in {} s, {} executions, {} replays, {} crashes, {} changes by operators: no violation\n",
                    totals.runs, std::chrono::duration_cast<std::chrono::seconds>(runs.took()).count(),
                    totals.executions, totals.replays, totals.crashes, totals.by_hand));
  return 0;
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
  for (const auto& [name, kind] : sim::store_names) {
    if (name == options.store_name) options.store = kind;
  }
  if (!options.store_name.empty() && !options.store) {
    print_error(fmt::format("--store: {} is none of {}", options.store_name, all_stores()));
    return 2;
  }
  return simulate(options);
}

}  // namespace

Run add_simulate(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "simulate", "Run gateways, stores, clients, operators and faults in virtual time, and check every promise");
  const auto options = std::make_shared<SimulateOptions>();
  command->add_option("--seed", options->seed, "Everything is drawn from it; the default is 1")->type_name("N");
  command->add_option("--runs", options->runs, "How many seeds, from --seed on; the default is 1")->type_name("M");
  command->add_option("--for", options->length_text, "Seeds from --seed on until so much time has passed, such as 10m")
      ->type_name("DURATION");
  command->add_option("--threads", options->threads, "Seeds at the same time; the default is one a core")
      ->type_name("N");
  command->add_option("--store", options->store_name, "Every seed on this store, not the one it draws")
      ->type_name("{" + all_stores() + "}");
  command->add_flag("--trace", options->trace, "Print everything that happens; with one seed");
  command->footer(
      "A seed that violates a promise is printed with its setup, its history and the command that repeats it.\n"
      "Exit codes: 0 no violation, 1 a violation, 2 wrong options.");
  return [options] { return check_and_simulate(*options); };
}

}  // namespace once::cli
