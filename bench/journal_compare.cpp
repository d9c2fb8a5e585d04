// The journal beside RocksDB, on the same requests. Rounds are interleaved and only one of the two is open at a time,
// so that the CPU time of all threads is that of one store, its work in the background included.
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "bench/journal_bench.hpp"
#include "bench/journal_peer.hpp"
#include "bench/rocksdb_peer.hpp"
#include "store/journal/keeper.hpp"

namespace once::bench {

namespace {

enum class Side : std::uint8_t { journal, rocksdb };
enum class Work : std::uint8_t { first, replay };

// A journal with its keeper, as in the gateway.
class KeptJournal final : public Peer {
 public:
  KeptJournal(const std::string& folder, Sync sync)
      : journal_(folder, clock_, {.sync = sync}, std::chrono::hours(24)), keeper_(journal_.store()) {}

  void claim(std::span<const Request> batch) override { journal_.claim(batch); }
  void finish(std::span<const Request> batch) override { journal_.finish(batch); }
  void replay(std::span<const Request> batch) override { journal_.replay(batch); }

 private:
  SystemClock clock_;
  JournalPeer journal_;
  JournalKeeper keeper_;
};

struct Piece {
  Sync sync = Sync::always;
  Work work = Work::first;
  std::uint64_t batch = 1;

  auto operator<=>(const Piece&) const = default;
};

struct Figures {
  std::vector<double> cpu_us;
  std::vector<double> wall_us;
};

std::string_view name_of(Sync sync) {
  switch (sync) {
    case Sync::always: return "always";
    case Sync::interval: return "interval";
    case Sync::never: return "never";
  }
  return "";
}

class Comparison {
 public:
  explicit Comparison(const CompareOptions& options) : options_(options) {}

  void run() {
    const bool both = !rocksdb_version().empty();
    for (int round = 0; round <= options_.rounds; ++round) {  // the first one warms up
      for (const Sync sync : {Sync::always, Sync::never}) {
        run_side(Side::journal, sync, round);
        if (both) run_side(Side::rocksdb, sync, round);
      }
      fmt::print(stderr, "round {} of {}\n", round, options_.rounds);
    }
    print(Work::first, "first request: look-up, claim and finish");
    print(Work::replay, "replay: look-up of a finished key");
    if (!both) fmt::print("built without RocksDB: install librocksdb-dev and configure again\n");
  }

 private:
  void run_side(Side side, Sync sync, int round) {
    const std::string folder =
        fmt::format("{}/{}-{}", options_.folder, side == Side::journal ? "journal" : "rocksdb", name_of(sync));
    std::unique_ptr<Peer> peer;
    if (side == Side::journal) {
      peer = std::make_unique<KeptJournal>(folder, sync);
    } else {
      peer = open_rocksdb(folder, sync);
    }
    std::uint64_t& written = written_[{side, sync}];
    for (const std::uint64_t batch : options_.batches) {
      keep(side, {sync, Work::first, batch}, round, measure(batch, [&](std::vector<Request>& requests) {
             fill(requests, written, batch);
             peer->claim(requests);
             peer->finish(requests);
             written += batch;
           }));
    }
    // Reading is the same whatever is synced.
    if (sync == Sync::always) return;
    std::uint64_t drawn = 0;
    for (const std::uint64_t batch : options_.batches) {
      keep(side, {sync, Work::replay, batch}, round, measure(batch, [&](std::vector<Request>& requests) {
             requests.clear();
             for (std::uint64_t i = 0; i < batch; ++i) requests.push_back(request_number(mixed(++drawn) % written));
             peer->replay(requests);
           }));
    }
  }

  Spent measure(std::uint64_t batch, auto&& send) const {
    std::vector<Request> requests;
    const auto end = monotonic_now() + std::chrono::duration_cast<std::chrono::nanoseconds>(
                                           std::chrono::duration<double>(options_.seconds));
    const Stopwatch watch;
    std::uint64_t sent = 0;
    while (monotonic_now() < end) {
      send(requests);
      sent += batch;
    }
    const Spent spent = watch.spent();
    return spent.per(sent);
  }

  void keep(Side side, const Piece& piece, int round, const Spent& spent) {
    if (round == 0) return;
    Figures& figures = figures_[{side, piece}];
    figures.cpu_us.push_back(spent.cpu_us);
    figures.wall_us.push_back(spent.wall_us);
  }

  void print(Work work, std::string_view title) const {
    fmt::print("\n{} (µs a request, medians of {} rounds)\n", title, options_.rounds);
    fmt::print("{:10}{:>7}{:>14}{:>14}{:>8}{:>15}{:>15}\n", "sync", "batch", "journal CPU", "RocksDB CPU", "ratio",
               "journal clock", "RocksDB clock");
    for (const auto& [key, journal] : figures_) {
      const auto& [side, piece] = key;
      if (side != Side::journal || piece.work != work) continue;
      fmt::print("{:10}{:7}{:14.2f}", name_of(piece.sync), piece.batch, median(journal.cpu_us));
      const auto rocksdb = figures_.find({Side::rocksdb, piece});
      if (rocksdb == figures_.end()) {
        fmt::print("{:>14}{:>8}{:15.2f}{:>15}\n", "-", "-", median(journal.wall_us), "-");
        continue;
      }
      // Round by round, so that a slow minute of the machine weighs on both sides.
      std::vector<double> ratios;
      for (std::size_t i = 0; i < journal.cpu_us.size(); ++i) {
        ratios.push_back(journal.cpu_us[i] / rocksdb->second.cpu_us[i]);
      }
      fmt::print("{:14.2f}{:8.2f}{:15.2f}{:15.2f}\n", median(rocksdb->second.cpu_us), median(ratios),
                 median(journal.wall_us), median(rocksdb->second.wall_us));
    }
  }

  const CompareOptions options_;
  std::map<std::pair<Side, Sync>, std::uint64_t> written_;
  std::map<std::pair<Side, Piece>, Figures> figures_;
};

}  // namespace

void compare(const CompareOptions& options) {
  if (const std::string version = rocksdb_version(); !version.empty()) fmt::print("RocksDB {}\n", version);
  Comparison(options).run();
}

}  // namespace once::bench
