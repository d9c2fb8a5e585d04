#include "sim/sim_spool.hpp"

#include <utility>

namespace once::sim {

using namespace std::chrono_literals;

class SimSpool::OpenFile final : public SpoolFile {
 public:
  explicit OpenFile(SimSpool& spool) : spool_(spool) { ++spool_.open_files_; }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() override { --spool_.open_files_; }

  SpoolResult<void> write_at(std::uint64_t offset, std::string_view bytes) override {
    if (spool_.fails()) return std::unexpected(spool_.draw_error());
    if (content_.size() < offset + bytes.size()) content_.resize(offset + bytes.size());
    content_.replace(offset, bytes.size(), bytes);
    return {};
  }

  SpoolResult<std::size_t> read_at(std::uint64_t offset, std::span<char> into) override {
    if (spool_.fails()) return std::unexpected(SpoolError{.fault = SpoolFault::failed, .detail = "simulated"});
    return offset >= content_.size() ? 0 : content_.copy(into.data(), into.size(), offset);
  }

 private:
  SimSpool& spool_;
  std::string content_;
};

SpoolError SimSpool::draw_error() {
  return {.fault = world_.draw.one_of({SpoolFault::full, SpoolFault::failed}), .detail = "simulated"};
}

SpoolResult<std::unique_ptr<SpoolFile>> SimSpool::create(const std::string& /*directory*/) {
  if (fails()) return std::unexpected(draw_error());
  return std::make_unique<OpenFile>(*this);
}

void SimSpool::execute(OffloadJob& job) {
  job.execute();
  job.executed();
}

void SimSpool::add(OffloadJob& job) {
  if (over_) return execute(job);
  const std::uint64_t number = ++added_;
  waiting_[number] = &job;
  world_.after(world_.draw.between(0ms, 50ms), [this, number] {
    const auto found = waiting_.find(number);
    if (found == waiting_.end()) return;
    OffloadJob& due = *found->second;
    waiting_.erase(found);
    execute(due);
  });
}

void SimSpool::cut_off() {
  over_ = true;
  const auto left = std::exchange(waiting_, {});
  for (const auto& [number, job] : left) execute(*job);
}

}  // namespace once::sim
