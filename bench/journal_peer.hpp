// The journal as the benchmarks use it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "base/random.hpp"
#include "bench/measure.hpp"
#include "bench/requests.hpp"
#include "store/journal/journal_store.hpp"
#include "store/journal/system_disk.hpp"

namespace once::bench {

class JournalPeer final : public Peer {
 public:
  JournalPeer(const std::string& folder, const Clock& clock, const JournalSettings& settings, Duration ttl)
      : ttl_(ttl), log_(clock, STDERR_FILENO, LogLevel::warn, LogFormat::text), disk_(folder) {
    SystemRandom random;
    auto opened = JournalStore::open(disk_, clock, random, log_, settings);
    if (!opened) give_up(opened.error().detail);
    store_ = std::move(*opened);
  }

  JournalStore& store() { return *store_; }

  void claim(std::span<const Request> batch) override {
    execute(batch, Verb::claim);
    for (const Op& op : ops_) {
      if (op.status != OpStatus::done || op.verdict != Verdict::execute)
        give_up("a new key was not claimed: " + op.error);
    }
  }

  void finish(std::span<const Request> batch) override {
    execute(batch, Verb::finish);
    for (const Op& op : ops_) {
      if (op.status != OpStatus::done) give_up("a claim was not finished: " + op.error);
    }
  }

  void replay(std::span<const Request> batch) override {
    execute(batch, Verb::lookup);
    for (const Op& op : ops_) {
      if (op.status != OpStatus::done || !op.record || op.record->outcome == nullptr) give_up("no replay: " + op.error);
    }
  }

 private:
  void execute(std::span<const Request> batch, Verb verb) {
    ops_.resize(batch.size());
    pointers_.clear();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      ops_[i] = Op{.verb = verb, .id = batch[i].id, .nonce = batch[i].nonce, .terms = {.ttl = ttl_}};
      if (verb == Verb::finish) ops_[i].outcome = batch[i].outcome;
      pointers_.push_back(&ops_[i]);
    }
    store_->execute(pointers_);
  }

  const Duration ttl_;
  Log log_;
  SystemDisk disk_;
  std::unique_ptr<JournalStore> store_;
  std::vector<Op> ops_;
  std::vector<Op*> pointers_;
};

}  // namespace once::bench
