#include "gateway/spool/spooled_body.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "base/assert.hpp"
#include "base/sometimes.hpp"

namespace once::gateway {

namespace {

// Limits of one comparison job, so that other jobs do not wait long.
constexpr std::size_t most_reads_at_once = 4;
constexpr std::size_t most_steps_of_a_job = 4096;

}  // namespace

SpooledBody::~SpooledBody() {
  if (counted_ > 0) parts_.usage.give_back(HeldFor::request, counted_);
  parts_.spool.close(std::move(file_), taken_);
}

SpoolError SpooledBody::failed(SpoolError error) {
  error_ = error.detail;
  sometimes<"spool: a call to its disk failed">(error.fault == SpoolFault::failed);
  if (error.fault == SpoolFault::failed) parts_.spool.count_failure();
  return error;
}

Task<SpoolResult<void>> SpooledBody::write(std::string_view bytes) {
  if (parts_.spool.take(bytes.size(), parts_.most_on_disk) == Reserved::no) {
    sometimes<"spool: full">();
    co_return std::unexpected(SpoolError{.fault = SpoolFault::full, .detail = "limits.max_spool is reached"});
  }
  taken_ += bytes.size();
  auto step = parts_.spool.call(parts_.home, [this, bytes] { return write_now(bytes); });
  SpoolResult<void> written = co_await step;
  if (!written) co_return std::unexpected(failed(std::move(written.error())));
  co_return SpoolResult<void>();
}

SpoolResult<void> SpooledBody::write_now(std::string_view bytes) {
  if (!file_) {
    auto created = parts_.spool.disk().create(parts_.directory);
    if (!created) return std::unexpected(std::move(created.error()));
    file_ = *std::move(created);
    parts_.spool.count_file();
  }
  if (auto written = file_->write_at(size_, bytes); !written) return written;
  hash_.add(bytes);
  size_ += bytes.size();
  return {};
}

Reserved SpooledBody::take_memory() {
  ONCE_ASSERT(counted_ == 0);
  if (parts_.usage.take(HeldFor::request, spool_piece, parts_.most_in_memory) == Reserved::no) return Reserved::no;
  counted_ += spool_piece;
  return Reserved::yes;
}

Task<SpoolResult<void>> SpooledBody::finish() {
  ONCE_ASSERT(size_ == taken_);
  bool known = hash_.end(size_) == LargeFingerprint::Known::yes;
  while (!known) {
    auto step = parts_.spool.call(parts_.home, [this] { return compare_some(); });
    SpoolResult<bool> compared = co_await step;
    if (!compared) co_return std::unexpected(failed(std::move(compared.error())));
    known = *compared;
  }
  fingerprint_ = hash_.take();
  co_return SpoolResult<void>();
}

SpoolResult<bool> SpooledBody::compare_some() {
  const std::size_t before = reads_;
  for (std::size_t step = 0; step < most_steps_of_a_job && reads_ - before < most_reads_at_once; ++step) {
    switch (hash_.step(*this)) {
      case LargeFingerprint::Progress::more: break;
      case LargeFingerprint::Progress::known: return true;
      case LargeFingerprint::Progress::unreadable:
        return std::unexpected(SpoolError{.fault = SpoolFault::failed, .detail = error_});
    }
  }
  return false;
}

std::optional<std::string_view> SpooledBody::at(std::uint64_t offset, std::size_t least) {
  ONCE_ASSERT(offset <= size_);
  const std::uint64_t needed = std::min<std::uint64_t>(least, size_ - offset);
  if (offset < piece_at_ || offset + needed > piece_at_ + piece_.size()) {
    ++reads_;
    piece_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(spool_piece, size_ - offset)));
    piece_at_ = offset;
    const SpoolResult<std::size_t> got = file_->read_at(offset, std::span(piece_));
    if (!got || *got < piece_.size()) {
      error_ = got ? "the file is shorter than what was written" : got.error().detail;
      piece_.clear();
      return std::nullopt;
    }
  }
  return std::string_view(piece_).substr(static_cast<std::size_t>(offset - piece_at_));
}

Task<std::optional<std::string_view>> SpooledBody::read(std::uint64_t offset) {
  auto step = parts_.spool.call(parts_.home, [this, offset] { return at(offset, 1); });
  const std::optional<std::string_view> bytes = co_await step;
  if (!bytes) parts_.spool.count_failure();
  co_return bytes;
}

}  // namespace once::gateway
