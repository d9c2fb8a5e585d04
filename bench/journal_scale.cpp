// The journal with ten thousand and with ten million live keys: what a request costs, what a key costs in memory, and
// how long a restart takes.
//
// Time is the number of the request: so many come in a second, every key expires when `keys` newer ones have come, and
// maintain() is called ten times a second. So a journal stays as large as it is while it is measured, and pays for
// expiry too.
#include "bench/journal_bench.hpp"
#include "bench/journal_peer.hpp"

namespace once::bench {

namespace {

constexpr std::uint64_t requests_a_second = 10'000;
constexpr std::uint64_t requests_between_maintain = requests_a_second / 10;

class RequestClock final : public Clock {
 public:
  explicit RequestClock(std::uint64_t number) : number_(number) {}
  Time now() const override {
    constexpr Time begin(std::chrono::seconds(1'800'000'000));
    return begin + Duration(number_ * 1000 / requests_a_second);
  }
  std::uint64_t number() const { return number_; }
  void advance(std::uint64_t requests) { number_ += requests; }

 private:
  std::uint64_t number_;
};

struct Place {
  std::string folder;
  std::uint64_t keys = 0;
  std::uint64_t sent = 0;  // requests so far
};

// A journal at its place, which remembers how far it got.
class Scaled {
 public:
  Scaled(Place& place, Sync sync)
      : place_(place), clock_(place.sent), journal_(place.folder, clock_, {.sync = sync}, ttl(place.keys)) {}

  // Claim and finish of new keys.
  void send(std::uint64_t requests, std::uint64_t batch) {
    for (const std::uint64_t end = place_.sent + requests; place_.sent < end;) {
      fill(batch_, place_.sent, batch);
      journal_.claim(batch_);
      journal_.finish(batch_);
      place_.sent += batch;
      clock_.advance(batch);
      if (place_.sent % requests_between_maintain >= batch) continue;
      const Stopwatch watch;
      journal_.store().maintain();
      maintain_us_ += watch.spent().cpu_us;
    }
  }

  // Any of the keys that are certain to be there.
  void replay(std::uint64_t requests, std::uint64_t batch) {
    for (std::uint64_t done = 0; done < requests; done += batch) {
      batch_.clear();
      for (std::uint64_t i = 0; i < batch; ++i) {
        batch_.push_back(request_number(place_.sent - 1 - mixed(++drawn_) % (place_.keys / 2)));
      }
      journal_.replay(batch_);
    }
  }

  double maintain_us() { return std::exchange(maintain_us_, 0); }
  JournalStats stats() { return journal_.store().stats(); }

 private:
  static Duration ttl(std::uint64_t keys) { return Duration(keys * 1000 / requests_a_second); }

  Place& place_;
  RequestClock clock_;
  JournalPeer journal_;
  std::vector<Request> batch_;
  std::uint64_t drawn_ = 0;
  double maintain_us_ = 0;
};

struct Memory {
  std::uint64_t measured = 0;  // what the process got since the journal was opened
  std::uint64_t counted = 0;   // what the journal says
  std::uint64_t keys = 0;
};

Memory memory_of(Scaled& journal, std::uint64_t before) {
  const JournalStats stats = journal.stats();
  return {.measured = own_memory() - before, .counted = stats.index_bytes + stats.cache_bytes, .keys = stats.keys};
}

struct Filled {
  Memory memory;
  std::uint64_t sent = 0;
  std::uint64_t disk_bytes = 0;
  Spent spent;
};

Filled fill_up(Place place, std::uint64_t batch) {
  const std::uint64_t before = own_memory();
  const Stopwatch watch;
  Scaled journal(place, Sync::never);
  journal.send((place.keys + batch - 1) / batch * batch, batch);
  return {.memory = memory_of(journal, before),
          .sent = place.sent,
          .disk_bytes = journal.stats().disk_bytes,
          .spent = watch.spent()};
}

struct Restarted {
  Spent spent;
  Memory memory;
  Spent replay;  // each
  std::uint64_t read_back = 0;
};

Restarted restart(Place place, const ScaleOptions& options) {
  const std::uint64_t before = own_memory();
  const Stopwatch watch;
  Scaled journal(place, Sync::never);
  Restarted restarted{.spent = watch.spent(), .memory = memory_of(journal, before)};
  const Stopwatch replays;
  journal.replay(options.requests, options.batch);
  restarted.replay = replays.spent().per(options.requests);
  restarted.read_back = journal.stats().read_back;
  return restarted;
}

class Report {
 public:
  void budget(std::string_view what, double value, double most, std::string_view unit) {
    met_ = met_ && value <= most;
    fmt::print("{}: {:.2f}{} (budget {:g}{}) {}\n", what, value, unit, most, unit, value <= most ? "ok" : "OVER");
  }
  bool met() const { return met_; }

 private:
  bool met_ = true;
};

void print_memory(std::string_view when, const Memory& memory) {
  const auto keys = static_cast<double>(memory.keys);
  fmt::print("{:22}{:12}{:14.1f}{:14.1f}{:16.1f}\n", when, memory.keys,
             static_cast<double>(memory.measured) / (1 << 20), static_cast<double>(memory.measured) / keys,
             static_cast<double>(memory.counted) / keys);
}

// New keys in turns, in one process.
void measure_requests(Place& few, Place& many, Sync sync, const ScaleOptions& options, Report& report) {
  Scaled small(few, sync);
  Scaled large(many, sync);
  struct Figures {
    std::vector<double> cpu_us, wall_us, maintain_us;
  };
  Figures of_small;
  Figures of_large;
  std::vector<double> ratios;
  const auto turn = [&](Scaled& journal, Figures& figures) {
    journal.maintain_us();
    const Stopwatch watch;
    journal.send(options.requests, options.batch);
    const Spent spent = watch.spent().per(options.requests);
    figures.cpu_us.push_back(spent.cpu_us);
    figures.wall_us.push_back(spent.wall_us);
    figures.maintain_us.push_back(journal.maintain_us() / static_cast<double>(options.requests));
  };
  for (int round = 0; round <= options.rounds; ++round) {  // the first one warms up
    turn(small, of_small);
    turn(large, of_large);
    if (round == 0) of_small = of_large = Figures();
  }
  for (std::size_t i = 0; i < of_small.cpu_us.size(); ++i) ratios.push_back(of_large.cpu_us[i] / of_small.cpu_us[i]);
  const std::string_view name = sync == Sync::always ? "sync always" : "sync never";
  for (const auto& [journal, figures] : {std::pair(&small, &of_small), std::pair(&large, &of_large)}) {
    fmt::print("{:22}{:12}{:14.2f}{:14.2f}{:16.2f}\n", name, journal->stats().keys, median(figures->cpu_us),
               median(figures->maintain_us), median(figures->wall_us));
  }
  report.budget(fmt::format("CPU of a request, {} keys against {}, {}", many.keys, few.keys, name), median(ratios), 1.2,
                "");
}

}  // namespace

void fill_journal(const FillOptions& options) {
  const SystemClock clock;
  JournalPeer journal(options.folder, clock, {.sync = Sync::never}, std::chrono::hours(24));
  constexpr std::uint64_t at_once = 512;
  std::vector<Request> batch;
  for (std::uint64_t sent = 0; sent < options.keys; sent += at_once) {
    fill(batch, sent, std::min(at_once, options.keys - sent));
    journal.claim(batch);
    journal.finish(batch);
    if (sent % (at_once * 64) == 0) journal.store().maintain();
  }
}

bool scale(const ScaleOptions& options) {
  Report report;
  Place few{.folder = options.folder + "/few", .keys = options.few};
  Place many{.folder = options.folder + "/many", .keys = options.many};
  fmt::print("{:22}{:>12}{:>14}{:>14}{:>16}\n", "memory", "live keys", "MiB measured", "bytes a key", "by its count");
  Memory most;
  for (Place* place : {&few, &many}) {
    const Filled filled = in_child([&] { return fill_up(*place, options.batch); });
    place->sent = filled.sent;
    print_memory("filled", filled.memory);
    most = filled.memory;
    fmt::print(stderr, "filled in {:.1f} s, {:.1f} s of CPU, {} MiB on disk\n", filled.spent.wall_us / 1e6,
               filled.spent.cpu_us / 1e6, filled.disk_bytes >> 20U);
  }

  std::vector<double> wall_s;
  std::vector<double> cpu_s;
  std::vector<double> replay_few;
  std::vector<double> replay_many;
  Restarted last;
  for (int i = 0; i < options.restarts; ++i) {
    replay_few.push_back(in_child([&] { return restart(few, options); }).replay.cpu_us);
    last = in_child([&] { return restart(many, options); });
    replay_many.push_back(last.replay.cpu_us);
    wall_s.push_back(last.spent.wall_us / 1e6);
    cpu_s.push_back(last.spent.cpu_us / 1e6);
  }
  print_memory("restarted", last.memory);
  fmt::print("\nrestart: {:.2f} s ({:.2f} … {:.2f}), {:.2f} s of CPU; the files were in the page cache\n",
             median(wall_s), std::ranges::min(wall_s), std::ranges::max(wall_s), median(cpu_s));
  fmt::print("replay of any key: {:.2f} µs of CPU with {} keys, {:.2f} with {} ({:.0f} % read from segments)\n\n",
             median(replay_few), few.keys, median(replay_many), many.keys,
             100.0 * static_cast<double>(last.read_back) / static_cast<double>(options.requests));

  fmt::print("{:22}{:>12}{:>14}{:>15}{:>17}\n", "claim and finish", "live keys", "CPU µs each", "µs maintain()",
             "clock µs each");
  for (const Sync sync : {Sync::never, Sync::always}) measure_requests(few, many, sync, options, report);
  const auto bytes_a_key = [](const Memory& memory) {
    return static_cast<double>(memory.measured) / static_cast<double>(memory.keys);
  };
  // The cache takes the same for few keys as for many, and would be most of it.
  if (options.many >= 1'000'000) {
    report.budget("memory after the fill", bytes_a_key(most), 100, " bytes a key");
    report.budget("memory after a restart", bytes_a_key(last.memory), 100, " bytes a key");
  }
  report.budget("restart", median(wall_s), 5, " s");
  return report.met();
}

}  // namespace once::bench
