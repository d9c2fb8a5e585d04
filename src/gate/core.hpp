// A gate as other threads see it: its thread, and how to send it jobs. The thread owns the engine, opens it and
// destroys it, so that blocking steps block only this thread; all signals are blocked in it and in the threads that it
// starts.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <expected>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <once/gate.hpp>
#include <once/guard.hpp>

#include "gate/engine.hpp"
#include "gate/held.hpp"
#include "gate/mailbox.hpp"

namespace once::gate {

class Core : public std::enable_shared_from_this<Core> {
 public:
  static std::expected<std::shared_ptr<Core>, OpenError> open(const Options& options, LogTarget log);
  Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // `stopping`: the gate is stopping, so `then` is not called.
  enum class Begun : std::uint8_t { yes, stopping };
  Begun begin(Request request, std::uint64_t tag, Completion<BeginResult> then);
  Begun claim_work(guard::Request request, std::uint64_t tag, Completion<ClaimResultOfWork> then);
  Begun look(guard::Request request, std::uint64_t tag, Completion<WorkResult> then);
  Begun sweep(Completion<SweepResult> then);

  void cancel(std::uint64_t tag);
  // Reports when the last claim has ended.
  void stop(Completion<StopResult> then);
  // Ends the gate and cancels the calls in progress. Afterwards only claims may use it.
  void end();
  // Whether this is the thread that callbacks run on; it cannot wait for its own end.
  bool is_own_thread() const { return thread_.load() == std::this_thread::get_id(); }
  // Whether all threads and connections have ended within the limit. Those that have not continue by themselves.
  bool wait_for_end(std::chrono::milliseconds limit);

  // Whether a begin needs the body, and its largest size.
  struct NeededBody {
    bool needed = false;
    std::size_t most = 0;
  };
  NeededBody needed_body(Request head) const;
  std::expected<std::string, std::string> operation_of(const guard::Request& request) const;
  std::string metrics() const { return engine_->metrics_text(); }

  // Whether this is the process that opened it: it must not be used in any other.
  bool is_here() const;
  // Runs a job of a claim on the gate's thread.
  Mailbox::Posted post(Mailbox::Job job) { return mailbox_.post(std::move(job)); }

 private:
  struct Opening;
  static void run_thread(Core& core, const Options& options, LogTarget log, Opening& opening);
  void run(const Options& options, LogTarget log, Opening& opening);
  void start(std::move_only_function<std::unique_ptr<Call>(Engine&)> make);
  // Whether calls may begin. If not, dismisses `then`.
  template <class T>
  bool is_open_to(Completion<T>& then);

  const pid_t process_;
  std::atomic<std::thread::id> thread_{};
  Mailbox mailbox_;
  std::atomic<bool> stopping_ = false;
  std::unique_ptr<Engine> engine_;  // created and destroyed by the thread
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
};

}  // namespace once::gate
