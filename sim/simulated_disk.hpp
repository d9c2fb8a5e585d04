// A disk in memory that fails, tears writes, fills up and loses data, all drawn from a seed. A Platter is the disk of
// the machine; a SimulatedDisk is the view of one process. It uses no threads and no time, so that simulations are
// reproducible.
//
// The rules are the worst case of a file system:
// - Written data is visible to every reader at once, and survives the end of a process.
// - A power loss keeps synced data. Of each later write it keeps any of the 512-byte sectors, of each later
//   create, rename and remove either nothing or all of it. A sector is never half written.
// - After a sync that failed, part of the written data is on disk and the rest is lost, though readers still see
//   it: a later sync that succeeds proves nothing about it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/draw.hpp"
#include "store/journal/disk.hpp"

namespace once::sim {

enum class DiskCall : std::uint8_t {
  list,
  create,
  open,
  rename,
  remove,
  sync_names,
  write,
  read,
  sync,
  truncate,
  size
};
inline constexpr std::array every_disk_call = {
    DiskCall::list,  DiskCall::create, DiskCall::open, DiskCall::rename,   DiskCall::remove, DiskCall::sync_names,
    DiskCall::write, DiskCall::read,   DiskCall::sync, DiskCall::truncate, DiskCall::size};

inline std::string_view name_of(DiskCall call) {
  constexpr std::array names = {"list",  "create", "open", "rename",   "remove", "sync_names",
                                "write", "read",   "sync", "truncate", "size"};
  return names[std::to_underlying(call)];
}

class Platter {
 public:
  static constexpr std::size_t sector = 512;

  explicit Platter(std::uint64_t seed) : draw_(seed) {}

  // A power loss and restart. All processes end, and data that the rules above do not keep is lost.
  void lose_power() {
    end_processes();
    const bool ordered = draw_.one_in(3);  // like a journaling file system: names up to some point in time survive
    const std::uint64_t keep = draw_.below(pending_names_.size() + 1);
    Names kept = durable_names_;
    for (std::size_t i = 0; i < pending_names_.size(); ++i) {
      if (ordered ? i < keep : draw_.one_in(2)) apply(kept, pending_names_[i]);
    }
    pending_names_.clear();
    durable_names_ = names_ = std::move(kept);
    for (const auto& [name, inode] : names_) inode->lose_power(draw_);
  }

  // Ends the process at once, as with SIGKILL. The system continues: nothing that was written is lost.
  void end_processes() {
    ++generation_;
    locked_ = false;
    stopped_ = false;
    stop_at_ = 0;
    faults_.clear();
  }

  // The nth call of this kind from now on (1: the next) fails; later ones do not.
  void fail(DiskCall call, std::uint64_t nth, DiskFault fault) { faults_[{call, calls(call) + nth}] = fault; }
  // From the nth call from now on (1: the next), calls have no effect, except that this one may be half done: the
  // machine has stopped and the program does not know it yet. lose_power() or end_processes() follows.
  void stop_at(std::uint64_t nth) { stop_at_ = all_calls_ + nth; }
  bool stopped() const { return stopped_; }
  // The limit of all files together; existing data stays.
  void set_space(std::optional<std::uint64_t> bytes) { space_ = bytes; }

  std::uint64_t calls(DiskCall call) const { return calls_[std::to_underlying(call)]; }
  std::uint64_t all_calls() const { return all_calls_; }
  // How many times a file was synced after its sync had failed.
  std::uint64_t syncs_after_failure() const { return syncs_after_failure_; }

  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [name, inode] : names_) sum += inode->cache.size();
    return sum;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, inode] : names_) all.push_back(name);
    return all;
  }
  bool holds(std::string_view name) const { return names_.contains(std::string(name)); }

  // Reads or replaces a file directly; the change is durable at once.
  std::string content(std::string_view name) const { return names_.at(std::string(name))->cache; }
  void put(std::string_view name, std::string content) {
    auto inode = std::make_shared<Inode>();
    inode->cache = inode->durable = std::move(content);
    names_[std::string(name)] = durable_names_[std::string(name)] = std::move(inode);
  }
  void take(std::string_view name) {
    names_.erase(std::string(name));
    durable_names_.erase(std::string(name));
  }
  void flip(std::string_view name, std::uint64_t offset, unsigned bit) {
    Inode& inode = *names_.at(std::string(name));
    inode.cache.at(offset) ^= static_cast<char>(1U << bit);
    if (offset < inode.durable.size()) inode.durable[offset] ^= static_cast<char>(1U << bit);
  }

 private:
  friend class SimulatedDisk;
  class OpenFile;

  // A write, or a new size.
  struct Pending {
    std::uint64_t offset = 0;
    std::string bytes;
    bool resizes = false;
  };

  struct Inode {
    std::string cache;    // as processes see it
    std::string durable;  // as synced
    std::vector<Pending> pending;
    bool sync_failed = false;

    void write(std::uint64_t offset, std::string_view bytes) {
      put(cache, offset, bytes);
      pending.push_back({.offset = offset, .bytes = std::string(bytes)});
    }
    void resize(std::uint64_t size) {
      cache.resize(size);
      pending.push_back({.offset = size, .bytes = {}, .resizes = true});
    }
    void sync() {
      for (const Pending& each : pending) apply(durable, each);
      pending.clear();
    }
    void fail_sync(Draw& draw) {
      keep_some(draw);
      sync_failed = true;
    }
    void lose_power(Draw& draw) {
      keep_some(draw);
      cache = durable;
      sync_failed = false;
    }

   private:
    static void put(std::string& to, std::uint64_t offset, std::string_view bytes) {
      if (to.size() < offset + bytes.size()) to.resize(offset + bytes.size());
      to.replace(offset, bytes.size(), bytes);
    }
    static void apply(std::string& to, const Pending& each) {
      each.resizes ? to.resize(each.offset) : put(to, each.offset, each.bytes);
    }
    void keep_some(Draw& draw) {
      // Keeps nothing, everything, a prefix, or any sectors.
      const std::uint64_t how = draw.below(4);
      const std::uint64_t first = how == 2 ? draw.below(pending.size() + 1) : 0;
      for (std::size_t i = 0; i < pending.size(); ++i) {
        const Pending& each = pending[i];
        if (how == 1 || (how == 2 && i < first)) {
          apply(durable, each);
        } else if (how == 3 || (how == 2 && i == first)) {
          keep_sectors(each, draw);
        }
      }
      pending.clear();
    }
    void keep_sectors(const Pending& each, Draw& draw) {
      if (each.resizes) {
        if (draw.one_in(2)) apply(durable, each);
        return;
      }
      for_each_sector(each.offset, each.bytes, [&](std::uint64_t offset, std::string_view part) {
        if (draw.one_in(2)) put(durable, offset, part);
      });
    }
  };

  using Names = std::map<std::string, std::shared_ptr<Inode>, std::less<>>;
  struct NameChange {
    std::string forget;              // empty: nothing
    std::string name;                // empty: nothing
    std::shared_ptr<Inode> inode{};  // of `name`
  };
  static void apply(Names& names, const NameChange& change) {
    if (!change.forget.empty()) names.erase(change.forget);
    if (!change.name.empty()) names[change.name] = change.inode;
  }
  void change(NameChange change) {
    apply(names_, change);
    pending_names_.push_back(std::move(change));
  }

  static void for_each_sector(std::uint64_t offset, std::string_view bytes, auto&& visit) {
    while (!bytes.empty()) {
      const std::size_t size = std::min<std::size_t>(bytes.size(), sector - offset % sector);
      visit(offset, bytes.substr(0, size));
      offset += size;
      bytes.remove_prefix(size);
    }
  }

  // The fate of a call: success, failure, partial, or no effect because the machine has stopped.
  struct Fate {
    std::optional<DiskError> error{};
    bool partly = false;
  };
  Fate fate_of(DiskCall call, std::uint64_t generation, std::string_view name) {
    const auto error = [&](DiskFault fault) {
      return DiskError{.fault = fault, .detail = "cannot " + std::string(name_of(call)) + " " + path_of(name)};
    };
    if (generation != generation_ || stopped_) return {.error = error(DiskFault::failed)};
    ++all_calls_;
    const std::uint64_t number = ++calls_[std::to_underlying(call)];
    if (all_calls_ == stop_at_) {
      stopped_ = true;
      return {.error = error(DiskFault::failed), .partly = true};
    }
    const auto fault = faults_.find({call, number});
    if (fault == faults_.end()) return {};
    return {.error = error(fault->second), .partly = true};
  }

  static std::string path_of(std::string_view name) { return "/simulated/" + std::string(name); }

  Draw draw_;
  Names names_;
  Names durable_names_;
  std::vector<NameChange> pending_names_;
  std::uint64_t generation_ = 0;
  bool locked_ = false;
  bool stopped_ = false;
  std::uint64_t stop_at_ = 0;
  std::optional<std::uint64_t> space_;
  std::map<std::pair<DiskCall, std::uint64_t>, DiskFault> faults_;
  std::array<std::uint64_t, every_disk_call.size()> calls_{};
  std::uint64_t all_calls_ = 0;
  std::uint64_t syncs_after_failure_ = 0;
};

class Platter::OpenFile final : public File {
 public:
  OpenFile(Platter& platter, std::string name, std::shared_ptr<Inode> inode)
      : platter_(platter), name_(std::move(name)), inode_(std::move(inode)), generation_(platter.generation_) {}

  DiskResult<void> write_at(std::uint64_t offset, std::string_view bytes) override {
    const Fate fate = platter_.fate_of(DiskCall::write, generation_, name_);
    if (fate.error) {
      if (fate.partly) write_partly(offset, bytes);
      return std::unexpected(*fate.error);
    }
    const std::string_view fits = part_that_fits(offset, bytes);
    inode_->write(offset, fits);
    if (fits.size() == bytes.size()) return {};
    return std::unexpected(DiskError{.fault = DiskFault::no_space, .detail = "no space for " + path_of(name_)});
  }

  DiskResult<std::size_t> read_at(std::uint64_t offset, std::span<char> into) override {
    const Fate fate = platter_.fate_of(DiskCall::read, generation_, name_);
    if (fate.error) return std::unexpected(*fate.error);
    if (offset >= inode_->cache.size()) return 0;
    return inode_->cache.copy(into.data(), into.size(), offset);
  }

  DiskResult<void> sync() override {
    const Fate fate = platter_.fate_of(DiskCall::sync, generation_, name_);
    if (inode_->sync_failed && generation_ == platter_.generation_) ++platter_.syncs_after_failure_;
    if (fate.error) {
      if (fate.partly) inode_->fail_sync(platter_.draw_);
      return std::unexpected(*fate.error);
    }
    inode_->sync();
    return {};
  }

  DiskResult<void> truncate(std::uint64_t size) override {
    const Fate fate = platter_.fate_of(DiskCall::truncate, generation_, name_);
    if (!fate.error || (fate.partly && platter_.draw_.one_in(2))) inode_->resize(size);
    if (fate.error) return std::unexpected(*fate.error);
    return {};
  }

  DiskResult<std::uint64_t> size() override {
    const Fate fate = platter_.fate_of(DiskCall::size, generation_, name_);
    if (fate.error) return std::unexpected(*fate.error);
    return inode_->cache.size();
  }

 private:
  void write_partly(std::uint64_t offset, std::string_view bytes) {
    Draw& draw = platter_.draw_;
    const std::uint64_t how = draw.below(4);  // nothing, everything, a prefix, or any sectors
    if (how == 1) inode_->write(offset, bytes);
    if (how == 2) inode_->write(offset, bytes.substr(0, draw.below(bytes.size() + 1)));
    if (how != 3) return;
    for_each_sector(offset, bytes, [&](std::uint64_t at, std::string_view part) {
      if (draw.one_in(2)) inode_->write(at, part);
    });
  }

  std::string_view part_that_fits(std::uint64_t offset, std::string_view bytes) const {
    if (!platter_.space_) return bytes;
    const std::uint64_t used = platter_.bytes();
    const std::uint64_t most = inode_->cache.size() + (*platter_.space_ - std::min(*platter_.space_, used));
    return bytes.substr(0, most - std::min(most, offset));
  }

  Platter& platter_;
  std::string name_;
  std::shared_ptr<Inode> inode_;
  std::uint64_t generation_;
};

class SimulatedDisk final : public Disk {
 public:
  explicit SimulatedDisk(Platter& platter) : platter_(platter), generation_(platter.generation_) {}
  ~SimulatedDisk() override {
    if (has_lock_ && generation_ == platter_.generation_) platter_.locked_ = false;
  }
  SimulatedDisk(const SimulatedDisk&) = delete;
  SimulatedDisk& operator=(const SimulatedDisk&) = delete;

  DiskResult<void> lock() override {
    if (platter_.locked_) {
      return std::unexpected(DiskError{.fault = DiskFault::in_use, .detail = "/simulated is in use"});
    }
    platter_.locked_ = has_lock_ = true;
    return {};
  }

  DiskResult<std::vector<std::string>> list() override {
    if (auto fate = fate_of(DiskCall::list, ""); fate.error) return std::unexpected(*fate.error);
    return platter_.names();
  }

  DiskResult<std::unique_ptr<File>> create(std::string_view name) override {
    const auto fate = fate_of(DiskCall::create, name);
    if (fate.error && !(fate.partly && platter_.draw_.one_in(2))) return std::unexpected(*fate.error);
    auto inode = std::make_shared<Platter::Inode>();
    platter_.change({.forget = {}, .name = std::string(name), .inode = inode});
    if (fate.error) return std::unexpected(*fate.error);
    return file(name, std::move(inode));
  }

  DiskResult<std::unique_ptr<File>> open(std::string_view name, Access /*access*/) override {
    if (auto fate = fate_of(DiskCall::open, name); fate.error) return std::unexpected(*fate.error);
    const auto found = platter_.names_.find(name);
    if (found == platter_.names_.end()) return not_there(name);
    return file(name, found->second);
  }

  DiskResult<void> rename(std::string_view from, std::string_view to) override {
    const auto fate = fate_of(DiskCall::rename, from);
    if (fate.error && !(fate.partly && platter_.draw_.one_in(2))) return std::unexpected(*fate.error);
    const auto found = platter_.names_.find(from);
    if (found == platter_.names_.end()) return not_there(from);
    platter_.change({.forget = std::string(from), .name = std::string(to), .inode = found->second});
    if (fate.error) return std::unexpected(*fate.error);
    return {};
  }

  DiskResult<void> remove(std::string_view name) override {
    const auto fate = fate_of(DiskCall::remove, name);
    if (fate.error && !(fate.partly && platter_.draw_.one_in(2))) return std::unexpected(*fate.error);
    if (platter_.names_.contains(name)) platter_.change({.forget = std::string(name), .name = {}});
    if (fate.error) return std::unexpected(*fate.error);
    return {};
  }

  DiskResult<void> sync_names() override {
    const auto fate = fate_of(DiskCall::sync_names, "");
    if (fate.error) return std::unexpected(*fate.error);
    platter_.durable_names_ = platter_.names_;
    platter_.pending_names_.clear();
    return {};
  }

  std::string path_of(std::string_view name) const override { return Platter::path_of(name); }

 private:
  Platter::Fate fate_of(DiskCall call, std::string_view name) { return platter_.fate_of(call, generation_, name); }
  DiskResult<std::unique_ptr<File>> file(std::string_view name, std::shared_ptr<Platter::Inode> inode) {
    return std::make_unique<Platter::OpenFile>(platter_, std::string(name), std::move(inode));
  }
  std::unexpected<DiskError> not_there(std::string_view name) const {
    return std::unexpected(DiskError{.fault = DiskFault::failed, .detail = "no such file: " + path_of(name)});
  }

  Platter& platter_;
  std::uint64_t generation_;
  bool has_lock_ = false;
};

}  // namespace once::sim
