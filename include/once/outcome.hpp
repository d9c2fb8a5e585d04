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
  succeeded,    // done by this call, or before
  in_progress,  // another owner is running it, or has died and cannot be replaced yet: retry after retry_after
  failed,       // `reason` says why, and whether to call again
};

// Why the status is not succeeded.
enum class Reason : std::uint8_t {
  none,
  // In progress.
  at_work,  // its owner is running
  gone,     // its owner has died; takeover_after has not passed
  // Failed; the next call repeats the work.
  work_failed,  // the work threw, or returned an error
  // Failed, but the work may have had its effect.
  lost,          // another caller took over because the lease was not renewed in time; its outcome counts
  not_recorded,  // the work ended, but the store did not answer; it may be recorded later, or count as gone
  // Failed; the work was not called.
  unknown,            // its owner has died and on_unknown is hold: an operator must resolve it
  mismatch,           // the key was used with another fingerprint
  not_kept,           // it succeeded before, but its value was not kept: too large, or it could not be sanitised
  expired,            // the key has expired and is remembered
  unreadable,         // the recorded value cannot be decoded as this type
  invalid,            // the request is invalid: see detail
  store_unavailable,  // the state is unknown
  store_full,
  internal,   // for example out of memory
  forked,     // the guard was opened before a fork(): open one in the child
  cancelled,  // the caller asked to stop before the work began
};

// "in_progress", "work_failed" and so on, for logs, metrics and responses.
std::string_view name(Status status);
std::string_view name(Reason reason);

enum class Source : std::uint8_t {
  fresh,   // this call did the work
  cached,  // it was done before
};

// An outcome without its value.
struct OutcomeFacts {
  Status status = Status::failed;
  Reason reason = Reason::none;
  Source source = Source::fresh;
  unsigned attempt = 0;       // the number of the execution, from 1
  std::uint64_t fence = 0;    // grows with every claim, so that a backend can refuse an older owner
  int code = 200;             // the status given to once_finish(), if the work recorded its own outcome
  Duration retry_after = {};  // if in progress
  std::string detail;         // for people; contains an exception's text only if the request asked for it
  // The exception of the work or its codec. Only for this caller: it is never stored.
  std::exception_ptr exception;

  bool succeeded() const { return status == Status::succeeded; }
  bool cached() const { return source == Source::cached; }
  // One word for why there is no value.
  std::string_view stop_reason() const { return status == Status::in_progress ? name(status) : name(reason); }
};

// E is the error type of work that returns a std::expected. A function may return an Outcome<T, E> as an Outcome<T>.
template <class T, class E = void>
struct Outcome;

template <class T>
struct [[nodiscard]] Outcome<T, void> : OutcomeFacts {
  // Set exactly if succeeded: what the work returned or, from the store, the stored part of it.
  std::optional<T> value;
};

template <class T, class E>
struct [[nodiscard]] Outcome : Outcome<T, void> {
  // The error that the work of this call returned; never stored.
  std::optional<E> error;
};

// A JSON text. It is only checked if it is sanitised.
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
//     static std::optional<Copy> decode(std::string_view bytes);  // nullopt: not the bytes of a Copy
//   };
//
// encode may also return a view of the value. Both may throw. If encode throws the work has failed; if decode throws
// the result is Reason::unreadable.
template <class T>
struct Codec;

// The requirements for a codec of T.
template <class C, class T>
concept CodecFor = requires(const T& value, std::string_view bytes) {
  { C::media_type } -> std::convertible_to<std::string_view>;
  { C::encode(value) } -> std::convertible_to<std::string_view>;
  { C::decode(bytes) } -> std::same_as<std::optional<T>>;
};

// For work that returns nothing: only its success is recorded.
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
