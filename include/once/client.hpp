// A client that retries correctly: one logical operation, one key, several tries. Every try carries the same key and
// the same bytes, so a server that supports the key (Once, or an API with its own idempotency keys) does the work once,
// even if requests or responses are lost. docs/guides/client.md lists what is retried, and why.
//
// send() collects the response; stream() passes it on as it arrives, and continues on another connection if the first
// one breaks. Do not use them with a server that ignores the key: there a retry may do the work twice.
//
//   once::Client client;
//   const auto result = client.send({.url = "https://api.example/payments", .body = R"({"amount": 4200})"});
//   if (result.stop_reason == once::client::StopReason::answered) use(result.answer->status, result.answer->body);
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace once::client {

struct Header {
  std::string name;
  std::string value;
};

// The request of the operation. It is the same on every try.
struct Request {
  std::string method = "POST";
  std::string url;              // http: or https:
  std::vector<Header> headers;  // sent as given; without a Content-Type field none is sent
  std::string body;
  std::string key;  // empty: a new key is made, or read from the key file
};

enum class KeyForm : std::uint8_t {
  uuid_v4,  // random; reveals nothing
  uuid_v7,  // begins with the time, which keeps a server's index compact
};

enum class KeyFileEnd : std::uint8_t {
  keep,    // marked done after a final answer: sending again returns the recorded answer
  remove,  // deleted after a final answer: sending again is a new operation
};

// Whether to retry after a 500. A 500 is an answer: the server failed, perhaps after half of the work, and may fail
// again. Servers that record it as a failure, as Once does, execute again on a retry.
enum class RetryServerErrors : std::uint8_t { no, yes };

struct Options {
  using Duration = std::chrono::milliseconds;

  std::string key_header = "Idempotency-Key";
  KeyForm key_form = KeyForm::uuid_v4;

  // If set, the key is on disk before the first byte is sent, and a restarted process continues with it.
  std::string key_file;
  KeyFileEnd key_file_end = KeyFileEnd::keep;
  // The age limit of a key file: servers forget keys (Once after 24 h), and then a retry is a second execution. Zero:
  // no limit.
  Duration key_file_lifetime = std::chrono::hours(23);

  unsigned max_retries = 8;                         // after the first try
  Duration deadline = std::chrono::minutes(2);      // for all tries and the waits between them
  Duration try_timeout = std::chrono::seconds(30);  // for one try, including connecting
  Duration connect_timeout = std::chrono::seconds(10);
  // Full jitter: the wait after try n is random between zero and min(longest_backoff, first_backoff * 2^(n-1)). A
  // Retry-After is always respected: the wait is never shorter than the server asked for.
  Duration first_backoff = std::chrono::milliseconds(200);
  Duration longest_backoff = std::chrono::seconds(20);
  RetryServerErrors server_errors = RetryServerErrors::no;

  std::size_t max_answer_body = std::size_t{16} << 20;
  std::size_t max_answer_headers = std::size_t{64} << 10;  // total size in bytes

  // PEM certificates to trust instead of the system's. Verification cannot be switched off.
  std::string ca_file;
  // PEM files that authenticate the client, if the server asks: the certificate, followed by its issuers, and its
  // private key. Read on every try, so that a renewed certificate is used from then on.
  std::string client_certificate;
  std::string client_certificate_key;
  std::string client_certificate_passphrase;  // of an encrypted key
  std::string user_agent = "once-client";
};

// The result of one try. The table in docs/guides/client.md has a row for each.
enum class Happened : std::uint8_t {
  // Nothing of the request was sent.
  not_resolved,
  not_connected,
  not_trusted,          // the server's certificate was not accepted, or the client's own cannot be used
  lost_before_sending,  // the connection was lost before the request was sent, also during the TLS handshake
  // The request was sent, at least in part, but no whole answer arrived.
  timed_out,
  lost_after_sending,
  not_http,
  answer_too_large,
  broken_off,     // a recorded part with Idempotency-Status: unknown: the execution was interrupted
  new_attempt,    // in a stream: another execution, whose bytes do not continue the earlier ones
  not_protected,  // in a stream: interrupted, and the response did not say that the key was honoured
  // An answer came.
  success,            // 2xx
  redirect,           // 3xx: never followed
  request_timeout,    // 408
  in_flight,          // a 409 that means that another try with this key is executing
  unknown_for_now,    // 409 outcome-unknown with Retry-After
  unknown_held,       // 409 outcome-unknown without Retry-After: an operator must resolve it
  conflict,           // any other 409
  mismatch,           // 422
  too_early,          // 425
  too_many_requests,  // 429
  client_error,       // any other 4xx
  server_error,       // 500, and other 5xx without their own row
  not_implemented,    // 501, 505
  bad_gateway,        // 502
  unavailable,        // 503
  gateway_timeout,    // 504
  outcome_unknown,    // 502, 503 or 504 with code outcome-unknown: the request was sent to the backend
  said_not_to_retry,  // 5xx whose problem document says "retryable": false
  // The caller asked to stop.
  cancelled,
};

// "lost-after-sending" and so on, for messages and logs.
std::string_view name(Happened happened);

enum class Replayed : std::uint8_t {
  unsaid,  // the server does not say
  no,      // executed by this try
  yes,     // executed before, by an earlier try or another client with the same key
};

struct Answer {
  int status = 0;
  std::vector<Header> headers;
  std::string body;
  Replayed replayed = Replayed::unsaid;

  // The value of the first header of that name, ignoring case; empty if there is none.
  std::string_view header(std::string_view name) const;
};

// Why send() returned.
enum class StopReason : std::uint8_t {
  answered,       // `answer` is final
  not_retried,    // no answer, and another try would end the same way: see `happened`
  retries_spent,  // gave up: max_retries
  deadline,       // gave up: the deadline, or the server asked to wait beyond it
  cancelled,      // gave up: the caller asked to stop
  bad_request,    // nothing was sent: the request or the options are invalid
  key_file,       // nothing was sent: the key file cannot be used
};

// What is known about the work.
enum class Work : std::uint8_t {
  not_sent,  // no byte of it was sent by any try
  unknown,   // perhaps done. Retry later with the same key; a new key may do it twice
  answered,  // see the answer
};

struct Result {
  StopReason stop_reason = StopReason::bad_request;
  Work work = Work::not_sent;
  Happened happened = Happened::not_connected;  // of the last try
  unsigned tries = 0;
  std::string key;               // keep it if `work` is unknown
  std::optional<Answer> answer;  // of the last try, also when giving up; without its body if that is too large
  std::string detail;            // for people
};

// Whether the response has Idempotency-Stopped: true, because its caller stopped it early.
enum class Stopped : std::uint8_t { no, yes };

enum class Reading : std::uint8_t { go_on, leave };

// Receives a stream, on the thread that called stream().
struct Reader {
  // Called once with the head of the 2xx, without a body. Later responses only continue its body.
  std::function<void(const Answer& head)> on_head;
  // Called with every byte of the body, once and in order. Returning `leave` ends the call like a stop request.
  std::function<Reading(std::string_view bytes)> on_bytes;
};

// How a stream ended. Continue with the same key, never with a new one.
enum class StreamEnd : std::uint8_t {
  whole,            // complete: all of it was received
  not_begun,        // there was no 2xx: see `result`, as for send()
  outcome_unknown,  // the execution was interrupted at the backend or the gateway, and may have taken effect
  new_attempt,      // it was executed again: discard what was received, and read the new response with the same key
  refused,          // a retry got another status: see the answer
  not_protected,    // the response did not say that its key was honoured, so it was not retried
  gave_up,          // no connection before the deadline, or retries_spent
  left,             // the caller asked to stop; the server continues
};

// "outcome-unknown" and so on, for messages and logs.
std::string_view name(StreamEnd end);

struct StreamResult {
  StreamEnd end = StreamEnd::not_begun;
  Stopped stopped = Stopped::no;
  std::uint64_t received = 0;  // the offset of the next byte in the body
  unsigned attempt = 0;        // the number of the execution; 0: unknown
  // The result of the last try, as for send(). If that was a 2xx, its answer has no body.
  Result result;
};

struct StopResult {
  // `yes`: the response ends here, and retries get the recorded part. `no` with a 2xx in `result`: it had already
  // ended. Otherwise `result` has the reason.
  Stopped stopped = Stopped::no;
  Result result;
};

// Reported after each try, on the thread that sends.
struct TryReport {
  unsigned number = 0;  // 1 is the first
  Happened happened = Happened::not_connected;
  int status = 0;  // 0: no answer
  std::string_view detail;
  std::optional<Options::Duration> next_after;  // nullopt: this was the last try
};

enum class KeyOrigin : std::uint8_t { made, given, resumed };

struct Watcher {
  // Called with the key before the first byte is sent.
  std::function<void(std::string_view key, KeyOrigin origin)> on_key;
  std::function<void(const TryReport& report)> on_try;
};

// Thread-safe: any number of threads may call it at once. Each call blocks its thread until it ends, and uses one new
// connection per try. Failures of the network or the key file never throw; running out of memory does, and exceptions
// of a Watcher or a Reader pass through.
class Client {
 public:
  explicit Client(Options options = {});
  ~Client();
  Client(Client&& other) noexcept;
  Client& operator=(Client&& other) noexcept;

  // A stop request ends the wait or the current try at once, with StopReason::cancelled.
  Result send(const Request& request, const Watcher& watcher = {}, std::stop_token stop = {}) const;

  // Like send(), for a response that may take long: every byte is passed on once, as it arrives. If the connection
  // breaks, the same request is sent again for the rest; two executions are never mixed. try_timeout is the longest
  // silence of a connection. max_retries and deadline start over whenever bytes have arrived, and the total time is
  // unlimited.
  StreamResult stream(const Request& request, const Reader& reader, const Watcher& watcher = {},
                      std::stop_token stop = {}) const;

  // Ends the execution of a request that streams, as the caller that sent it: same method, URL, key and headers; its
  // body is not needed. Without a key, uses that of the key file, which must exist and is not changed. Only for
  // requests that went through Once: another server sees a DELETE of that URL.
  StopResult stop(const Request& request, const Watcher& watcher = {}, std::stop_token stop = {}) const;

 private:
  std::unique_ptr<const Options> options_;
};

}  // namespace once::client

namespace once {

using Client = client::Client;

}  // namespace once
