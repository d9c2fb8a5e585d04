// What a store behind a server does in a second: operations that are claimed and then finished, one transaction per
// step as people write it by hand, or in batches as the lanes make them. Same statements, same connections, same
// server; only the size of the batch differs. bench/stores starts the servers and compares.
//
//   server_store_bench URL --batch 32 --connections 4 --seconds 5
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "store/catalog/catalog.hpp"

namespace once::bench {
namespace {

struct Options {
  std::string url;
  std::size_t batch = 1;
  std::size_t connections = 4;
  std::size_t seconds = 5;
};

Options parse(int argc, char** argv) {
  Options options;
  options.url = argc > 1 ? argv[1] : "";
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const std::size_t value = parse_number(argv[i + 1]).value_or(0);
    if (name == "--batch") options.batch = value;
    if (name == "--connections") options.connections = value;
    if (name == "--seconds") options.seconds = value;
  }
  return options;
}

Result<std::unique_ptr<ServerStore>> open(const Options& options, const Log& log) {
  const ServerSettings settings{.connections = options.connections};
  const StoreType* const type = find_store(options.url);
  if (type == nullptr || type->connect == nullptr) {
    return std::unexpected(Error{
        .source = ErrorSource::config, .retryable = Retryable::no, .detail = "not the URL of a store behind a server"});
  }
  if (type->schema != nullptr) {
    if (const auto made = type->schema->apply(options.url, settings); !made) return std::unexpected(made.error());
  }
  return type->connect(options.url, settings, log);
}

// Claims a batch, then finishes it, as a gateway does with the requests of many clients.
class Caller {
 public:
  Caller(Store& store, std::size_t batch) : store_(store), ops_(batch) {
    for (Op& op : ops_) batch_.push_back(&op);
    outcome_ = std::make_shared<const std::string>(300, 'x');
  }

  void once() {
    for (Op& op : ops_) {
      op = {.verb = Verb::claim, .terms = {.lease = std::chrono::seconds(30)}, .tenant = "tenant", .route = "/**"};
      random_.fill(op.id.bytes);
      random_.fill(op.nonce.bytes);
    }
    run();
    for (Op& op : ops_) {
      op.verb = Verb::finish;
      op.outcome = outcome_;
    }
    run();
  }

  bool failed() const { return failed_; }

 private:
  void run() {
    store_.execute(batch_);
    for (const Op& op : ops_) failed_ = failed_ || op.status != OpStatus::done;
  }

  Store& store_;
  std::vector<Op> ops_;
  std::vector<Op*> batch_;
  OutcomeBytes outcome_;
  SystemRandom random_;
  bool failed_ = false;
};

int run(const Options& options) {
  const SystemClock clock;
  const Log log(clock, STDERR_FILENO, LogLevel::error, LogFormat::text);
  const auto store = open(options, log);
  if (!store) {
    std::fputs((store.error().detail + "\n").c_str(), stderr);
    return 1;
  }
  std::atomic<bool> failed = false;
  std::atomic<std::uint64_t> done = 0;
  const auto begin = monotonic_now();
  const auto end = begin + std::chrono::seconds(options.seconds);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < options.connections; ++i) {
      threads.emplace_back([&] {
        Caller caller(**store, options.batch);
        while (monotonic_now() < end && !caller.failed()) {
          caller.once();
          done += options.batch;
        }
        if (caller.failed()) failed = true;
      });
    }
  }
  const double seconds = std::chrono::duration<double>(monotonic_now() - begin).count();
  if (failed) {
    std::fputs("an operation failed\n", stderr);
    return 1;
  }
  std::fputs(fmt::format("{:.0f}\n", static_cast<double>(done) / seconds).c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace once::bench

int main(int argc, char** argv) {
  return once::bench::run(once::bench::parse(argc, argv));
}
