// Bytes read from a connection: the unread part, preceded by a pinned part that must not move (the head of the current
// message, which the parsed fields point into).
//
// A buffer that is misused becomes broken for good: it has no bytes and no room, so the next read into it ends the
// connection (socket.hpp). Its memory is kept, because views of it may still be in use.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/layers.hpp"

namespace once::http {

// Memory for bodies that arrive faster than a small buffer can take them. Each loop has this fixed amount: slow
// connections cannot make it grow, and connections without a window keep their small buffer.
class Windows {
 public:
  static constexpr std::size_t size = std::size_t{64} << 10U;
  static constexpr std::size_t most = 256;

  bool take() {
    if (taken_ == most) return false;
    ++taken_;
    return true;
  }
  void give_back() { --taken_; }
  std::size_t taken() const { return taken_; }

 private:
  std::size_t taken_ = 0;
};

class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { leave_window(); }

  // Unread bytes.
  std::string_view unread() const { return {data_.get() + begin_, end_ - begin_}; }
  bool empty() const { return begin_ == end_; }

  void consume(std::size_t count) {
    if (!holds(count <= end_ - begin_)) return;
    begin_ += count;
    if (begin_ == end_) begin_ = end_ = pinned_;
  }

  // Joins two consumed ranges that have a gap between them: moves the second one up to the first.
  std::string_view joined(std::string_view first, std::string_view second) {
    char* end = data_.get() + (first.data() - data_.get()) + first.size();
    std::memmove(end, second.data(), second.size());
    return {first.data(), first.size() + second.size()};
  }

  // Consumes the first `count` unread bytes, but keeps them in place until unpin().
  void pin(std::size_t count) {
    if (!holds(pinned_ == 0 && begin_ == 0 && count <= end_)) return;
    begin_ = pinned_ = count;
  }
  void unpin() {
    if (broken_) return;
    pinned_ = 0;
    if (begin_ == end_) begin_ = end_ = 0;
    narrow();
  }

  // Moves unread bytes to the front. Pinned bytes are discarded.
  void rewind() {
    if (broken_) return;
    pinned_ = 0;
    move_unread_to(0);
    narrow();
  }

  // Free space to read into: at least one byte if the buffer can still grow or move its unread bytes, else empty. Never
  // moves pinned bytes.
  std::span<char> room() {
    if (end_ == capacity_ && begin_ > pinned_) move_unread_to(pinned_);
    return {data_.get() + end_, capacity_ - end_};
  }
  void commit(std::size_t count) {
    if (!holds(count <= capacity_ - end_)) return;
    end_ += count;
    filled_ = end_ == capacity_;
  }
  // Whether the last read filled all the space, so more bytes are probably waiting.
  bool filled() const { return filled_; }

  std::size_t capacity() const { return capacity_; }

  // Grows the buffer to at least this size. Moves everything, so nothing may be pinned.
  void grow(std::size_t capacity) {
    if (!holds(pinned_ == 0) || capacity <= capacity_) return;
    auto larger = std::make_unique_for_overwrite<char[]>(capacity);
    if (!empty()) std::memcpy(larger.get(), data_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    leave_window();
    data_ = std::move(larger);
    capacity_ = capacity;
  }

  // Tries to continue in a window. Unread bytes move there; pinned ones stay in place until they are discarded,
  // which also ends the use of the window. Fails if none is free.
  bool try_widen(Windows& windows) {
    if (windows_ != nullptr) return true;
    if (broken_ || capacity_ >= Windows::size || !windows.take()) return false;
    auto window = std::make_unique_for_overwrite<char[]>(Windows::size);
    if (!empty()) std::memcpy(window.get(), data_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = pinned_ = 0;
    narrow_ = std::exchange(data_, std::move(window));
    narrow_capacity_ = std::exchange(capacity_, Windows::size);
    windows_ = &windows;
    return true;
  }

  // Frees the memory. grow() makes the buffer usable again.
  void release() {
    if (broken_) return;
    clear();
    data_.reset();
    capacity_ = 0;
  }

  void clear() {
    if (broken_) return;
    begin_ = end_ = pinned_ = 0;
    narrow();
  }

 private:
  bool holds(bool rule) {
    if (rule && !broken_) return true;
    broken_ = true;
    begin_ = end_ = pinned_ = capacity_;
    return false;
  }

  // Moves back from the window if the unread bytes fit into the small buffer.
  void narrow() {
    if (windows_ == nullptr || end_ - begin_ > narrow_capacity_) return;
    if (!empty()) std::memcpy(narrow_.get(), data_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    data_ = std::move(narrow_);
    capacity_ = narrow_capacity_;
    leave_window();
  }

  void leave_window() {
    if (windows_ != nullptr) windows_->give_back();
    windows_ = nullptr;
    narrow_.reset();
  }

  void move_unread_to(std::size_t position) {
    std::memmove(data_.get() + position, data_.get() + begin_, end_ - begin_);
    end_ -= begin_ - position;
    begin_ = position;
  }

  std::unique_ptr<char[]> data_;
  std::size_t capacity_ = 0;
  std::size_t pinned_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::unique_ptr<char[]> narrow_;  // kept while `data_` is a window
  std::size_t narrow_capacity_ = 0;
  Windows* windows_ = nullptr;  // the owner of that window
  bool filled_ = false;
  bool broken_ = false;
};

}  // namespace once::http
