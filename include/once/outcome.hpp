// The result of guarded work: succeeded, in progress or failed. A value, never an exception. The terms are those of
// docs/guides/library.md and docs/guides/claims.md.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace once::guard {

using Duration = std::chrono::milliseconds;

enum class Status : std::uint8_t {
  succeeded,    // it was done: by this call, or before
  in_progress,  // somebody is doing it, or was and may not be replaced yet: come back after retry_after
  failed,       // `reason` says why, and whether it may be called again
};

// Why it is not succeeded.
enum class Reason : std::uint8_t {
  none,
  // In progress.
  at_work,  // its owner is alive
  gone,     // its owner is gone; takeover_after has not passed
  // Failed; the next call does the work again.
  work_failed,  // the work threw, or said that it failed
  // Failed, and what the work did may count.
  lost,          // it took too long without a lease and somebody else has taken over: their outcome counts
  not_recorded,  // the work ended, and the store could not be told; it will count as gone, or be recorded later
  // Failed; the work was not called.
  unknown,            // its owner is gone and on_unknown is hold: somebody has to find out
  mismatch,           // the key was used with another fingerprint
  not_kept,           // it succeeded before, and its value was not kept: too large, or not what could be sanitised
  expired,            // the key has expired, and that is remembered
  unreadable,         // the recorded value is not one of this type
  invalid,            // the request makes no sense: see detail
  store_unavailable,  // nothing is known
  store_full,
  internal,   // out of memory, for one
  forked,     // the guard was opened before a fork(): open one in the child
  cancelled,  // the caller asked to stop before the work began
};

// "in_progress", "work_failed" and so on: for logs, metrics and answers.
std::string_view name(Status status);
std::string_view name(Reason reason);

enum class Source : std::uint8_t {
  fresh,   // this call did the work
  cached,  // it was done before
};

// All of an outcome but its value.
struct OutcomeFacts {
  Status status = Status::failed;
  Reason reason = Reason::none;
  Source source = Source::fresh;
  unsigned attempt = 0;       // 1 is the first execution
  std::uint64_t fence = 0;    // grows with every claim, so that others can refuse an older owner
  int code = 200;             // what once_finish() was given, if the work recorded its own outcome
  Duration retry_after = {};  // in progress only
  std::string detail;         // for people; of an exception only if the request asked for it
  // What the work threw, or what its codec did. For the caller alone: it is never stored.
  std::exception_ptr exception;

  bool succeeded() const { return status == Status::succeeded; }
  bool cached() const { return source == Source::cached; }
  // One word for whoever is told that there is no value.
  std::string_view stop_reason() const { return status == Status::in_progress ? name(status) : name(reason); }
};

// E: what a work that returns a std::expected fails with. A function may return an Outcome<T, E> as an Outcome<T>.
template <class T, class E = void>
struct Outcome;

template <class T>
struct [[nodiscard]] Outcome<T, void> : OutcomeFacts {
  // There exactly if succeeded: what the work returned; from the store, what was kept of it.
  std::optional<T> value;
};

template <class T, class E>
struct [[nodiscard]] Outcome : Outcome<T, void> {
  // What the work of this call failed with; never stored.
  std::optional<E> error;
};

// A JSON text, which is not checked unless it is sanitised.
struct Json {
  std::string text;

  bool operator==(const Json&) const = default;
};

// How a value is kept as bytes. Specialise it for types of your own:
//
//   template <>
//   struct once::guard::Codec<Copy> {
//     static constexpr std::string_view media_type = "application/json";
//     static std::string encode(const Copy& copy);
//     static std::optional<Copy> decode(std::string_view bytes);  // nothing: these are not the bytes of one
//   };
//
// encode may also return a view of the value. Both may throw: an encode that does is work that failed, a decode that
// does is Reason::unreadable.
template <class T>
struct Codec;

// What a codec of T has to have.
template <class C, class T>
concept CodecFor = requires(const T& value, std::string_view bytes) {
  { C::media_type } -> std::convertible_to<std::string_view>;
  { C::encode(value) } -> std::convertible_to<std::string_view>;
  { C::decode(bytes) } -> std::same_as<std::optional<T>>;
};

// Work that returns nothing: that it was done is all there is to know.
template <>
struct Codec<std::monostate> {
  static constexpr std::string_view media_type = "application/octet-stream";
  static std::string_view encode(const std::monostate& /*value*/) { return {}; }
  static std::optional<std::monostate> decode(std::string_view /*bytes*/) { return std::monostate(); }
};

template <>
struct Codec<std::string> {
  static constexpr std::string_view media_type = "application/octet-stream";
  static std::string_view encode(const std::string& value) { return value; }
  static std::optional<std::string> decode(std::string_view bytes) { return std::string(bytes); }
};

template <>
struct Codec<Json> {
  static constexpr std::string_view media_type = "application/json";
  static std::string_view encode(const Json& value) { return value.text; }
  static std::optional<Json> decode(std::string_view bytes) { return Json{std::string(bytes)}; }
};

template <>
struct Codec<std::vector<std::byte>> {
  static constexpr std::string_view media_type = "application/octet-stream";
  static std::string encode(const std::vector<std::byte>& value) {
    return {reinterpret_cast<const char*>(value.data()), value.size()};
  }
  static std::optional<std::vector<std::byte>> decode(std::string_view bytes) {
    const auto view = std::as_bytes(std::span(bytes));
    return std::vector<std::byte>(view.begin(), view.end());
  }
};

}  // namespace once::guard

namespace once {

template <class T, class E = void>
using Outcome = guard::Outcome<T, E>;
using Json = guard::Json;

}  // namespace once
