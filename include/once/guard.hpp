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
  production,   // no secret: open() fails
  development,  // no secret: one that everybody knows is used
};

enum class Logging : std::uint8_t { off, standard_error };

// A call that has ended, for traces and latencies. What was not reached took no time.
struct Observed {
  enum class Call : std::uint8_t { run, claim, succeed, fail };

  Call call = Call::run;
  std::string_view tenant;  // of the request; empty when a claim ends
  std::string_view scope;
  Status status = Status::failed;  // of a claim that was acquired: in progress, without a reason
  Reason reason = Reason::none;
  Source source = Source::fresh;
  unsigned attempt = 0;
  std::chrono::steady_clock::time_point began;
  // One after the other.
  std::chrono::nanoseconds claiming{};  // the store, and the wait for an owner
  std::chrono::nanoseconds working{};
  std::chrono::nanoseconds recording{};
};

struct Options {
  // memory: | journal:DIR | redis://… | postgres://… | mysql://…; docs/operate/stores.md has them all. A journal
  // belongs to one process, memory is gone with it; the others are shared by everybody who uses the same secret. The
  // tables of PostgreSQL and MySQL are made by `once schema`.
  std::string store = "memory:";
  // At least 16 unpredictable bytes, the same in every process that shares the store. Operation ids are HMACs under it.
  std::string secret = {};
  Environment environment = Environment::production;
  // Values are encrypted in the store (AES-256-GCM) with the first one; all of them can decrypt.
  std::vector<std::string> encryption_secrets = {};

  std::size_t memory_bytes = std::size_t{256} << 20U;  // memory: how much of it
  std::size_t connections = 4;                         // servers: how many, at most 1024
  Duration store_timeout = std::chrono::seconds(5);    // servers: of one round trip
  std::size_t max_value = std::size_t{16} << 20U;      // larger values are not kept, but their work is not done again
  Logging logging = Logging::standard_error;
  // What time it is, from any thread; without one the system says. Leases, takeover and expiry of memory: and journal:
  // go by it, servers go by their own. For tests: <once/fake.hpp> has more.
  std::function<std::chrono::sys_time<Duration>()> now = {};
  // Told of every call on its own thread before it returns. What it throws is dropped.
  std::function<void(const Observed&)> observe = {};
};

// Why a guard could not be opened. For people; never holds a secret or a password.
struct OpenError {
  std::string detail;
};

// A part of what is asked for.
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

// What makes two calls the same: names and values in any order, or any JSON. Of JSON the canonical form counts. Only an
// HMAC of it is stored; even so, give the text of users as hash_text().
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

// What happens to work whose owner is gone.
enum class OnUnknown : std::uint8_t {
  takeover,  // the next caller does it again once takeover_after has passed since it started
  retry,     // the next caller does it again at once
  hold,      // nobody does, until it expires
};

enum class FailureText : std::uint8_t {
  fixed,      // says that the work threw, and nothing else: what() may hold secrets
  exception,  // what() of the exception
};

// Which members of a JSON value are kept. A name is that of a member, "error.message" the member `message` of a member
// `error`; array elements are looked into.
struct Sanitise {
  std::vector<std::string> store_only = {};   // from the top; empty: everything
  std::vector<std::string> never_store = {};  // wherever they are, also inside of what is in store_only
};

struct Request {
  std::string tenant = "local";
  std::string scope;     // what kind of work: 1 to 255 bytes
  std::string key = {};  // which piece of it, 1 to 255 bytes; or:
  Inputs inputs = {};
  // Any text that must be the same for the same key, else Reason::mismatch. Only an HMAC of it is stored.
  std::string fingerprint = {};

  Duration ttl = std::chrono::hours(24);              // how long the outcome is kept, from its end
  Duration takeover_after = std::chrono::minutes(5);  // counted from the start of the work
  // How long an owner that says nothing counts as at work. Owners say something every third of it, by themselves.
  Duration lease = std::chrono::seconds(30);
  OnUnknown on_unknown = OnUnknown::takeover;
  Duration wait = Duration::zero();  // for an owner at work, before it is Status::in_progress

  // The caller whose work it was gets all of the value, those after it what was stored. Any of these makes the value
  // JSON; one that is not is not kept.
  std::vector<std::string> store_only = {};
  std::vector<std::string> never_store = {};
  FailureText failure_text = FailureText::fixed;
};

// What the work may know of itself; a work that takes a const Running& is given one.
class Running {
 public:
  unsigned attempt() const { return attempt_; }
  std::uint64_t fence() const { return fence_; }
  // Somebody else has taken over: whatever is done from now on is not recorded.
  bool lost() const;
  // The one that run() was given. Work that stops for it throws, or returns an error, and counts as failed.
  const std::stop_token& stop_token() const { return stop_; }
  // hex(id).hex(nonce), as in Idempotency-Claim: for once_finish() in a transaction of the work's own. A capability: do
  // not log it.
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

// Work without its type. All of these may throw; they are called where everything is caught.
struct Work {
  struct Result {
    std::string buffer;
    std::string_view stored;  // of the buffer, or of what lives as long as the work
    std::string why;          // it did not succeed
  };
  void* state;
  bool (*perform)(void* state, const Running& running, Result& result);
  bool (*read)(void* state, std::string_view bytes);
  std::string_view media_type;
  std::stop_token stop = {};
};

// Of what a work returns: the value that is kept, and what it may fail with.
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
  using Result = void;  // it is no work, and a constraint of run() says so
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

  // False: the work returned an error.
  static bool call_work(Typed& self, const Running& running, Work::Result& result) {
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
        return false;
      }
      if constexpr (std::is_void_v<typename ResultOf<F>::value_type>) {
        self.value.emplace();
      } else {
        self.value.emplace(std::move(*returned));
      }
    }
    return true;
  }
  static bool perform(void* state, const Running& running, Work::Result& result) {
    auto& self = *static_cast<Typed*>(state);
    if (!call_work(self, running, result)) return false;
    if constexpr (std::same_as<decltype(CodecOf::encode(*self.value)), std::string_view>) {
      result.stored = CodecOf::encode(*self.value);
    } else {
      result.buffer = CodecOf::encode(*self.value);
      result.stored = result.buffer;
    }
    return true;
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

// Called once, on a thread of the guard's that serves all of its calls: it must not block, and hands on what takes
// time. What it throws is dropped.
template <class T>
using Then = std::move_only_function<void(T)>;

// Whether a claim is over, as its holder asked.
enum class EndStatus : std::uint8_t {
  done,          // by this call, or by an earlier one
  lost,          // somebody else has taken over, or another outcome stands
  not_recorded,  // the store could not be told: try again, or leave the claim to lapse
  forked,        // this is a forked child, and the claim is its parent's
};

struct EndResult {
  EndStatus status = EndStatus::done;
  std::string detail = {};  // for people

  bool done() const { return status == EndStatus::done; }
};

// The right to do the work, kept alive by its guard until it is ended or destroyed; destroyed without having been ended
// it lapses, and the next one may take over. A claim may outlive its guard: what it needs of it lives on.
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

  // How it ended, if no transaction of yours says so. Each may be repeated; after the first one that is done the claim
  // is over. succeed() gives what stands: if a transaction had recorded another value, that one.
  Outcome<std::string> succeed(std::string_view value, std::string_view media_type = "application/json");
  EndResult fail();     // the next caller does the work
  EndResult release();  // as if never claimed: nothing was done

  // The same without holding a thread. The claim is not touched until `then` has been called, and may be destroyed.
  void succeed_async(std::string value, std::string media_type, Then<Outcome<std::string>> then);
  void fail_async(Then<EndResult> then);
  void release_async(Then<EndResult> then);

  // What stands in the store: succeeded, once a transaction of yours that called once_finish() has been committed; in
  // progress while the claim is yours and nothing is recorded; lost.
  Outcome<std::string> recorded();

 private:
  friend class Engine;
  explicit Claim(std::shared_ptr<Held> held);
  std::shared_ptr<Held> held_;
};

struct [[nodiscard]] Claimed {
  std::optional<Claim> claim;    // it is yours
  Outcome<std::string> outcome;  // it is not
};

// Everything since it was opened. docs/guides/library.md has alerts on them.
struct Counts {
  std::uint64_t fresh = 0;   // succeeded, by the call's own work
  std::uint64_t cached = 0;  // succeeded before
  std::uint64_t in_progress = 0;
  std::uint64_t failed = 0;  // the work failed
  std::uint64_t lost = 0;
  std::uint64_t refused = 0;    // every other reason
  std::uint64_t takeovers = 0;  // attempts after an owner that was gone
  std::uint64_t retries = 0;    // attempts after one that failed
};

// Safe to share: any number of threads may call it at once. In a forked child every call of it is Reason::forked, and
// its end does nothing: open another one there.
class Guard {
 public:
  // Throws nothing.
  [[nodiscard]] static std::expected<Guard, OpenError> open(const Options& options);
  ~Guard();
  Guard(Guard&& other) noexcept;
  Guard& operator=(Guard&& other) noexcept;

  // Does the work unless it was done before, on this thread, and returns when its outcome is recorded. `work` returns a
  // value that CodecOf can keep, or a std::expected of one. Throws nothing, whatever the work throws. A work that ends
  // its thread (pthread_exit) leaves an outcome that is unknown.
  // A stop that is requested before the work begins ends the wait for an owner, with Reason::cancelled; after that it
  // is the work's: Running::stop_token().
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

  // The same in two halves, for work that records its outcome in a transaction of its own. A stop ends the wait.
  Claimed claim(const Request& request, const std::stop_token& stop = {});
  // The same without holding a thread, however long the wait. The guard may be destroyed meanwhile.
  void claim_async(Request request, Then<Claimed> then, std::stop_token stop = {});
  // How it stands, without claiming it. Nothing: there is no such work.
  [[nodiscard]] std::optional<Outcome<std::string>> look(const Request& request);

  // Asks the store something that changes nothing: how long the answer took, or why there was none. For health checks.
  [[nodiscard]] std::expected<std::chrono::nanoseconds, std::string> ping();

  Counts counts() const;

 private:
  friend class Engine;
  explicit Guard(std::shared_ptr<Engine> engine);
  void run_work(const Request& request, const detail::Work& work, OutcomeFacts& outcome);

  std::shared_ptr<Engine> engine_;  // claims share it
};

// What stands for a user's text in inputs: nobody who sees them can read it, and white space makes no difference.
// SHA-256 in hex of the text without white space at its ends, and with one blank for each run of it inside.
std::string hash_text(std::string_view text);

// What is kept of a JSON value; nothing if it is no valid JSON, or has a name twice in one object.
std::optional<std::string> sanitise(std::string_view json, const Sanitise& what);

}  // namespace once::guard

namespace once {

using Guard = guard::Guard;
using guard::hash_text;
using guard::sanitise;

}  // namespace once
