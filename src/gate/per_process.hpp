// An object that a forked child cannot use, because its threads stayed with the parent. A child makes a new one on
// first use; the parent's object is left alone, because its locks and connections may be in any state.
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

  // Thread-safe. The first call in a child blocks until the object is made; if that fails, the next call tries again.
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
      // A thread of the parent may have been making it when the child was forked: its mark is meaningless here.
      if (!maker_.compare_exchange_strong(maker, process)) continue;
      Made made = make_();
      if (made) state_.store(new State{process, *made});
      maker_.store(0);
      maker_.notify_all();
      return made;
    }
  }
  // This process's object. Null: it has made none.
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
