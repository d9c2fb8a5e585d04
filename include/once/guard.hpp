// Runs work in your own process once: calls that cost money, jobs, messages that may arrive twice. The first caller
// does the work and its value is recorded. Later callers get the value, concurrent callers get "in progress", and if an
// owner dies another one takes over. docs/guides/library.md has the guarantees.
//
// Not for HTTP requests (the gateway handles those, in front of any backend) and not a cache: a value is kept so that
// the work is not repeated.
//
//   auto guard = once::Guard::open({.store = "postgres://…", .secret = secret});
//   const auto result = guard->run({.tenant = "launchbase", .scope = "copy.propose", .inputs = {{"intake", 123}}},
//                                  [&] { return propose_copy(); });
//   if (result.succeeded()) use(*result.value);
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <once/outcome.hpp>

namespace once::guard {

enum class Environment : std::uint8_t {
  production,   // without a secret open() fails
  development,  // without a secret a well-known one is used
};

enum class Logging : std::uint8_t { off, standard_error };

// A call that has ended, for traces and latencies. Phases that were not reached have zero time.
struct Observed {
  enum class Call : std::uint8_t { run, claim, succeed, fail };

  Call call = Call::run;
  std::string_view tenant;  // of the request; empty for the end of a claim
  std::string_view scope;
  Status status = Status::failed;  // a claim that was acquired: in progress, without a reason
  Reason reason = Reason::none;
  Source source = Source::fresh;
  unsigned attempt = 0;
  std::chrono::steady_clock::time_point began;
  // The durations of successive phases.
  std::chrono::nanoseconds claiming{};  // the store, and waiting for an owner
  std::chrono::nanoseconds working{};
  std::chrono::nanoseconds recording{};
};

struct Options {
  // memory: | journal:DIR | redis://… | postgres://… | mysql://…; docs/operate/stores.md has them all. A journal
  // belongs to one process, memory is gone with it; the others are shared by all processes with the same secret. The
  // tables of PostgreSQL and MySQL are made by `once schema`.
  std::string store = "memory:";
  // At least 16 unpredictable bytes, equal in all processes that share the store. Operation ids are HMACs with it.
  std::string secret = {};
  Environment environment = Environment::production;
  // Values are encrypted in the store (AES-256-GCM) with the first secret and decrypted with any.
  std::vector<std::string> encryption_secrets = {};

  std::size_t memory_bytes = std::size_t{256} << 20U;  // the size limit of memory:
  std::size_t connections = 4;                         // to a server; at most 1024
  Duration store_timeout = std::chrono::seconds(5);    // for one round trip to a server
  std::size_t max_value = std::size_t{16} << 20U;      // larger values are not kept, but their work is not repeated
  Logging logging = Logging::standard_error;
  // The clock, called from any thread; empty: the system's. It is used for leases, takeover and expiry in memory: and
  // journal:, while servers use their own. For tests see also <once/fake.hpp>.
  std::function<std::chrono::sys_time<Duration>()> now = {};
  // Called for every call on its own thread before it returns. Exceptions are ignored.
  std::function<void(const Observed&)> observe = {};
};

// Why a guard could not be opened. Never contains a secret or a password.
struct OpenError {
  std::string detail;
};

// One input of the work.
struct Input {
  using Value = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Json>;

  Input(std::string_view the_name, std::nullptr_t) : name(the_name) {}
  Input(std::string_view the_name, std::same_as<bool> auto yes) : name(the_name), value(yes) {}
  Input(std::string_view the_name, std::signed_integral auto number) : name(the_name), value(std::int64_t{number}) {}
  Input(std::string_view the_name, std::unsigned_integral auto number)
    requires(!std::same_as<decltype(number), bool>)
      : name(the_name), value(std::uint64_t{number}) {}
  Input(std::string_view the_name, double number) : name(the_name), value(number) {}
  Input(std::string_view the_name, std::string text) : name(the_name), value(std::move(text)) {}
  Input(std::string_view the_name, std::string_view text) : name(the_name), value(std::string(text)) {}
  Input(std::string_view the_name, const char* text) : name(the_name), value(std::string(text)) {}
  Input(std::string_view the_name, Json json) : name(the_name), value(std::move(json)) {}

  std::string name;
  Value value = nullptr;
};

// What makes two calls equal: names and values in any order, or any JSON, compared in canonical form. Only an HMAC of
// it is stored; even so, pass users' text through hash_text().
class Inputs {
 public:
  Inputs() = default;
  Inputs(std::initializer_list<Input> members) : content_(std::vector<Input>(members)) {}
  explicit Inputs(std::vector<Input> members) : content_(std::move(members)) {}
  Inputs(Json json) : content_(std::move(json)) {}  // NOLINT(google-explicit-constructor): .inputs = Json{…}

  const std::vector<Input>* members() const { return std::get_if<std::vector<Input>>(&content_); }
  const Json* json() const { return std::get_if<Json>(&content_); }
  bool given() const { return !std::holds_alternative<std::monostate>(content_); }

 private:
  std::variant<std::monostate, std::vector<Input>, Json> content_;
};

// What to do with work whose owner has died.
enum class OnUnknown : std::uint8_t {
  takeover,  // the next caller repeats it once takeover_after has passed since it started
  retry,     // the next caller repeats it at once
  hold,      // it is not repeated until it expires
};

enum class FailureText : std::uint8_t {
  fixed,      // only says that the work threw, because what() may contain secrets
  exception,  // what() of the exception
};

// Which members of a JSON value are stored. "error.message" names the member `message` inside `error`; array elements
// are searched too.
struct Sanitise {
  std::vector<std::string> store_only = {};   // from the top level; empty: everything
  std::vector<std::string> never_store = {};  // at any level, also inside members of store_only
};

struct Request {
  std::string tenant = "local";
  std::string scope;     // the kind of work: 1 to 255 bytes
  std::string key = {};  // identifies the work, 1 to 255 bytes; or:
  Inputs inputs = {};
  // Any text that must be equal for equal keys, else Reason::mismatch. Only an HMAC of it is stored.
  std::string fingerprint = {};

  Duration ttl = std::chrono::hours(24);              // how long the outcome is kept after its end
  Duration takeover_after = std::chrono::minutes(5);  // since the start of the work
  // How long an owner counts as running without a sign of life. Owners renew automatically, three times per lease.
  Duration lease = std::chrono::seconds(30);
  OnUnknown on_unknown = OnUnknown::takeover;
  Duration wait = Duration::zero();  // how long to wait for a running owner before Status::in_progress

  // The caller that did the work gets the whole value, later ones only the stored members. If any is set the value must
  // be JSON, or it is not kept.
  std::vector<std::string> store_only = {};
  std::vector<std::string> never_store = {};
  FailureText failure_text = FailureText::fixed;
};

// What running work can find out; passed to work that takes a const Running&.
class Running {
 public:
  unsigned attempt() const { return attempt_; }
  std::uint64_t fence() const { return fence_; }
  // Whether another caller has taken over: then later results are not recorded.
  bool lost() const;
  // The token given to run(). Work that stops because of it throws or returns an error, and counts as failed.
  const std::stop_token& stop_token() const { return stop_; }
  // hex(id).hex(nonce), as in Idempotency-Claim: for once_finish() in the work's own transaction. A capability: do not
  // log it.
  std::string handle() const;

 private:
  friend class Engine;
  Running() = default;
  unsigned attempt_ = 0;
  std::uint64_t fence_ = 0;
  const void* owner_ = nullptr;
  std::stop_token stop_;
};

namespace detail {

// Work without its type. All of these may throw; exceptions are caught around the call.
struct Work {
  struct Result {
    std::string buffer;
    std::string_view stored;  // a view of the buffer, or of data that lives as long as the work
    std::string why;          // why it did not succeed
  };
  void* state;
  enum class Ended : bool { in_error, well };
  Ended (*perform)(void* state, const Running& running, Result& result);
  bool (*read)(void* state, std::string_view bytes);
  std::string_view media_type;
  std::stop_token stop = {};
};

// The types in what the work returns: the value to keep, and the error.
template <class T>
struct Returned {
  using Value = T;
  using Error = void;
};
template <>
struct Returned<void> {
  using Value = std::monostate;
  using Error = void;
};
template <class T, class E>
struct Returned<std::expected<T, E>> {
  using Value = typename Returned<T>::Value;
  using Error = E;
};

template <class F>
concept IsWork = std::invocable<F&> || std::invocable<F&, const Running&>;

template <class F>
decltype(auto) call(F& work, const Running& running) {
  if constexpr (std::invocable<F&, const Running&>) {
    return std::invoke(work, running);
  } else {
    return std::invoke(work);
  }
}

template <class F>
struct Called {
  using Result = void;  // not valid work; a constraint of run() reports that
};
template <IsWork F>
struct Called<F> {
  using Result = std::remove_cvref_t<decltype(call(std::declval<F&>(), std::declval<const Running&>()))>;
};
template <class F>
using ResultOf = typename Called<F>::Result;
template <class F>
using ValueOf = typename Returned<ResultOf<F>>::Value;
template <class F>
using OutcomeOf = Outcome<ValueOf<F>, typename Returned<ResultOf<F>>::Error>;

template <class CodecOf>
concept Exists = requires { sizeof(CodecOf); };

template <class F, class CodecOf>
struct Typed {
  F& work;
  OutcomeOf<F>& outcome;
  std::optional<ValueOf<F>>& value = outcome.value;

  static Work::Ended call_work(Typed& self, const Running& running, Work::Result& result) {
    if constexpr (std::is_void_v<ResultOf<F>>) {
      call(self.work, running);
      self.value.emplace();
    } else if constexpr (std::is_void_v<typename Returned<ResultOf<F>>::Error>) {
      self.value.emplace(call(self.work, running));
    } else {
      auto returned = call(self.work, running);
      if (!returned) {
        if constexpr (std::convertible_to<decltype(returned.error()), std::string>) result.why = returned.error();
        self.outcome.error.emplace(std::move(returned.error()));
        return Work::Ended::in_error;
      }
      if constexpr (std::is_void_v<typename ResultOf<F>::value_type>) {
        self.value.emplace();
      } else {
        self.value.emplace(std::move(*returned));
      }
    }
    return Work::Ended::well;
  }
  static Work::Ended perform(void* state, const Running& running, Work::Result& result) {
    auto& self = *static_cast<Typed*>(state);
    if (call_work(self, running, result) == Work::Ended::in_error) return Work::Ended::in_error;
    if constexpr (std::same_as<decltype(CodecOf::encode(*self.value)), std::string_view>) {
      result.stored = CodecOf::encode(*self.value);
    } else {
      result.buffer = CodecOf::encode(*self.value);
      result.stored = result.buffer;
    }
    return Work::Ended::well;
  }
  static bool read(void* state, std::string_view bytes) {
    auto& self = *static_cast<Typed*>(state);
    self.value = CodecOf::decode(bytes);
    return self.value.has_value();
  }
};

}  // namespace detail

class Engine;
struct Held;

// A callback, called once on a thread that serves all calls of the guard: it must not block. Exceptions are ignored.
template <class T>
using Then = std::move_only_function<void(T)>;

// The result of ending a claim.
enum class EndStatus : std::uint8_t {
  done,          // by this call, or by an earlier one
  lost,          // another caller has taken over, or another outcome is recorded
  not_recorded,  // the store did not answer: try again, or let the claim lapse
  forked,        // this is a forked child, and the claim is its parent's
};

struct EndResult {
  EndStatus status = EndStatus::done;
  std::string detail = {};  // for people

  bool done() const { return status == EndStatus::done; }
};

// The right to do the work, kept alive by its guard until it is ended or destroyed. If it is destroyed without an end,
// it lapses, and another caller may take over. A claim may outlive its guard.
class Claim {
 public:
  Claim(Claim&& other) noexcept;
  Claim& operator=(Claim&& other) noexcept;
  ~Claim();

  // For once_finish(claim, …) in a transaction of your own: see docs/guides/exactly-once.md. A capability: do not log
  // it.
  const std::string& handle() const;
  unsigned attempt() const;
  std::uint64_t fence() const;
  bool lost() const;

  // End the claim, unless your own transaction does. Each may be repeated; after the first one that returns `done`,
  // the claim is over. succeed() returns the recorded value: another one if a transaction recorded it first.
  Outcome<std::string> succeed(std::string_view value, std::string_view media_type = "application/json");
  EndResult fail();     // the next caller repeats the work
  EndResult release();  // undoes the claim: nothing was done

  // Asynchronous forms. Do not use the claim until `then` has been called; it may be destroyed.
  void succeed_async(std::string value, std::string media_type, Then<Outcome<std::string>> then);
  void fail_async(Then<EndResult> then);
  void release_async(Then<EndResult> then);

  // The recorded state: succeeded once your transaction that called once_finish() has committed; in progress while the
  // claim is yours and nothing is recorded; lost.
  Outcome<std::string> recorded();

 private:
  friend class Engine;
  explicit Claim(std::shared_ptr<Held> held);
  std::shared_ptr<Held> held_;
};

struct [[nodiscard]] Claimed {
  std::optional<Claim> claim;    // set if it is yours
  Outcome<std::string> outcome;  // set otherwise
};

// Counts since the guard was opened. docs/guides/library.md has alerts on them.
struct Counts {
  std::uint64_t fresh = 0;   // succeeded with this call's work
  std::uint64_t cached = 0;  // succeeded with an earlier outcome
  std::uint64_t in_progress = 0;
  std::uint64_t failed = 0;  // the work failed
  std::uint64_t lost = 0;
  std::uint64_t refused = 0;    // any other reason
  std::uint64_t takeovers = 0;  // attempts after an owner that had died
  std::uint64_t retries = 0;    // attempts after a failed one
};

// Thread-safe: any number of threads may call it at once. In a forked child every call returns Reason::forked, and
// destruction does nothing: open another guard there.
class Guard {
 public:
  // Never throws.
  [[nodiscard]] static std::expected<Guard, OpenError> open(const Options& options);
  ~Guard();
  Guard(Guard&& other) noexcept;
  Guard& operator=(Guard&& other) noexcept;

  // Does the work on this thread unless it was done before, and returns when its outcome is recorded. `work` returns a
  // value that CodecOf can encode, or a std::expected of one. Never throws, whatever the work throws. If the work ends
  // its thread (pthread_exit), the outcome is unknown. A stop requested before the work begins ends the wait for an
  // owner with Reason::cancelled; later the work may check Running::stop_token().
  template <detail::IsWork F, class CodecOf = Codec<detail::ValueOf<F>>>
  detail::OutcomeOf<F> run(const Request& request, F work, std::stop_token stop = {}) {
    using Value = detail::ValueOf<F>;
    static_assert(detail::Exists<CodecOf>,
                  "the type that the work returns has no codec: specialise once::guard::Codec for it");
    if constexpr (detail::Exists<CodecOf>) {
      static_assert(CodecFor<CodecOf, Value>,
                    "the codec lacks something: media_type, encode(const T&) that returns a string or a view, or "
                    "decode(std::string_view) that returns a std::optional<T>");
    }
    detail::OutcomeOf<F> outcome;
    if constexpr (CodecFor<CodecOf, Value>) {
      using Typed = detail::Typed<F, CodecOf>;
      Typed typed{work, outcome};
      run_work(request,
               {.state = &typed,
                .perform = &Typed::perform,
                .read = &Typed::read,
                .media_type = CodecOf::media_type,
                .stop = std::move(stop)},
               outcome);
      if (!outcome.succeeded()) outcome.value.reset();
    }
    return outcome;
  }

  // Like run() in two steps: claim(), then the end of the claim. For work that records its outcome in its own
  // transaction. A stop request ends the wait for an owner.
  Claimed claim(const Request& request, const std::stop_token& stop = {});
  // Asynchronous form; blocks no thread while it waits for an owner. The guard may be destroyed meanwhile.
  void claim_async(Request request, Then<Claimed> then, std::stop_token stop = {});
  // The recorded state, without claiming. nullopt: there is no such work.
  [[nodiscard]] std::optional<Outcome<std::string>> look(const Request& request);

  // Sends the store a request that changes nothing; returns the time it took, or the error. For health checks.
  [[nodiscard]] std::expected<std::chrono::nanoseconds, std::string> ping();

  Counts counts() const;

 private:
  friend class Engine;
  explicit Guard(std::shared_ptr<Engine> engine);
  void run_work(const Request& request, const detail::Work& work, OutcomeFacts& outcome);

  std::shared_ptr<Engine> engine_;  // shared with its claims
};

// Replaces a user's text in inputs, so that it cannot be read, and so that white space does not matter. SHA-256 in hex
// of the text, trimmed and with runs of white space replaced by one blank.
std::string hash_text(std::string_view text);

// The part of a JSON value that is stored; nullopt if it is invalid JSON, or an object has a duplicate name.
std::optional<std::string> sanitise(std::string_view json, const Sanitise& what);

}  // namespace once::guard

namespace once {

using Guard = guard::Guard;
using guard::hash_text;
using guard::sanitise;

}  // namespace once
