#include "base/task.hpp"

#include <array>
#include <new>

namespace once::base {

#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)

// With sanitizers, frames are not recycled: that would hide a use after free.
void* allocate_frame(std::size_t size) {
  return ::operator new(size);
}
void free_frame(void* frame, std::size_t) noexcept {
  ::operator delete(frame);
}

#else

namespace {

constexpr std::size_t size_step = 64;
constexpr std::size_t size_classes = 64;  // frames up to 4 KiB
constexpr std::size_t kept_per_class = 256;

struct FreeFrame {
  FreeFrame* next;
};

struct FramePool {
  std::array<FreeFrame*, size_classes> free{};
  std::array<std::size_t, size_classes> count{};

  FramePool() = default;
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;
  ~FramePool() {
    for (FreeFrame* frame : free) {
      while (frame != nullptr) {
        FreeFrame* next = frame->next;
        ::operator delete(frame);
        frame = next;
      }
    }
  }
};

thread_local FramePool pool;

std::size_t class_of(std::size_t size) {
  return (size + size_step - 1) / size_step;
}

}  // namespace

void* allocate_frame(std::size_t size) {
  const std::size_t index = class_of(size);
  if (index >= size_classes) return ::operator new(size);
  if (FreeFrame* frame = pool.free[index]) {
    pool.free[index] = frame->next;
    --pool.count[index];
    return frame;
  }
  return ::operator new(index * size_step);
}

void free_frame(void* memory, std::size_t size) noexcept {
  const std::size_t index = class_of(size);
  if (index >= size_classes || pool.count[index] >= kept_per_class) {
    ::operator delete(memory);
    return;
  }
  auto* frame = static_cast<FreeFrame*>(memory);
  frame->next = pool.free[index];
  pool.free[index] = frame;
  ++pool.count[index];
}

#endif

}  // namespace once::base
