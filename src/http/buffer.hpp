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

#include "base/layers.hpp"

namespace once::http {

class Buffer {
 public:
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

  // Consumes the first `count` unread bytes, and keeps them in place until unpin().
  void pin(std::size_t count) {
    if (!holds(pinned_ == 0 && begin_ == 0 && count <= end_)) return;
    begin_ = pinned_ = count;
  }
  void unpin() {
    if (broken_) return;
    pinned_ = 0;
    if (begin_ == end_) begin_ = end_ = 0;
  }

  // Moves unread bytes to the front. Pinned bytes are discarded.
  void rewind() {
    if (broken_) return;
    pinned_ = 0;
    move_unread_to(0);
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
  }

  std::size_t capacity() const { return capacity_; }

  // Grows the buffer to at least this size. Moves everything, so nothing may be pinned.
  void grow(std::size_t capacity) {
    if (!holds(pinned_ == 0) || capacity <= capacity_) return;
    auto larger = std::make_unique_for_overwrite<char[]>(capacity);
    if (!empty()) std::memcpy(larger.get(), data_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    data_ = std::move(larger);
    capacity_ = capacity;
  }

  // Frees the memory. grow() makes the buffer usable again.
  void release() {
    if (broken_) return;
    clear();
    data_.reset();
    capacity_ = 0;
  }

  void clear() {
    if (!broken_) begin_ = end_ = pinned_ = 0;
  }

 private:
  bool holds(bool rule) {
    if (rule && !broken_) return true;
    broken_ = true;
    begin_ = end_ = pinned_ = capacity_;
    return false;
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
  bool broken_ = false;
};

}  // namespace once::http
