// Owns a file descriptor and closes it.
#pragma once

#include <unistd.h>

#include <utility>

#include "base/layers.hpp"

namespace once::base {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }

  int get() const { return number_; }
  bool open() const { return number_ >= 0; }
  // To an owner of another kind.
  int release() { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

}  // namespace once::base
