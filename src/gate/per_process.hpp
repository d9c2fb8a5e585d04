// Something that a forked child cannot use, because its threads stayed with the parent. In a child it is made anew when
// it is first asked for; what the parent had is left alone, for its locks and connections may be in any state.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <expected>
#include <functional>
#include <memory>
#include <utility>

#include "base/layers.hpp"

namespace once::gate {

template <class T, class E>
class PerProcess {
 public:
  using Made = std::expected<std::shared_ptr<T>, E>;
  using Make = std::function<Made()>;

  PerProcess(std::shared_ptr<T> first, Make make)
      : make_(std::move(make)), state_(new State{::getpid(), std::move(first)}) {}
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;
  ~PerProcess() {
    State* const state = state_.load();
    if (state->process == ::getpid()) delete state;
  }

  // From any thread. In a child the first call blocks until it is made; if that fails, the next call tries again.
  Made get() {
    const pid_t process = ::getpid();
    while (true) {
      State* const state = state_.load();
      if (state->process == process) return state->value;
      pid_t maker = maker_.load();
      if (maker == process) {
        maker_.wait(process);
        continue;
      }
      // Another thread of the parent may have been at it when the child was forked: its mark means nothing here.
      if (!maker_.compare_exchange_strong(maker, process)) continue;
      Made made = make_();
      if (made) state_.store(new State{process, *made});
      maker_.store(0);
      maker_.notify_all();
      return made;
    }
  }
  // What this process has. Null: nothing was made in it.
  std::shared_ptr<T> here() const {
    const State* const state = state_.load();
    return state->process == ::getpid() ? state->value : nullptr;
  }

 private:
  struct State {
    const pid_t process;
    const std::shared_ptr<T> value;
  };

  const Make make_;
  std::atomic<State*> state_;
  std::atomic<pid_t> maker_ = 0;
};

}  // namespace once::gate
