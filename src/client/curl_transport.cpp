#include "client/curl_transport.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include <curl/curl.h>
#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/text.hpp"

namespace once::client {

namespace {

template <auto Free>
struct FreedBy {
  template <class T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using Easy = std::unique_ptr<CURL, FreedBy<curl_easy_cleanup>>;
using Multi = std::unique_ptr<CURLM, FreedBy<curl_multi_cleanup>>;
using List = std::unique_ptr<curl_slist, FreedBy<curl_slist_free_all>>;
using Url = std::unique_ptr<CURLU, FreedBy<curl_url_cleanup>>;

// curl's constructors fail only for lack of memory.
template <class Handle>
Handle made(Handle handle) {
  if (!handle) throw std::bad_alloc();
  return handle;
}

// The part of an answer received so far.
struct Receiving {
  const Options& options;
  Receiver* receiver = nullptr;
  Answer answer;  // its body has only bytes that the receiver has not got yet, if there is one
  std::size_t header_bytes = 0;
  bool head_complete = false;
  bool head_given = false;
  bool too_large = false;
  bool has_news = false;  // something was received since the last check

  bool streams() const { return receiver != nullptr && answer.status >= 200 && answer.status < 300; }

  // Passes what was received to the receiver. Not called inside curl, because a receiver may throw.
  Reading give() {
    if (!head_complete || !streams()) return Reading::go_on;
    if (!head_given) {
      head_given = true;
      if (receiver->take_head(answer) == Reading::leave) return Reading::leave;
    }
    if (answer.body.empty()) return Reading::go_on;
    const Reading reading = receiver->take_bytes(answer.body);
    answer.body.clear();
    return reading;
  }
};

void begin_head(Receiving& receiving, std::string_view status_line) {
  receiving.answer.headers.clear();  // those of an interim response
  receiving.answer.status = 0;
  const std::size_t space = status_line.find(' ');
  if (space != std::string_view::npos) {
    receiving.answer.status = static_cast<int>(parse_number(status_line.substr(space + 1, 3)).value_or(0));
  }
}

std::size_t take_header(char* data, std::size_t size, std::size_t count, void* context) {
  auto& receiving = *static_cast<Receiving*>(context);
  const std::string_view line(data, size * count);
  receiving.has_news = true;
  receiving.header_bytes += line.size();
  if (receiving.header_bytes > receiving.options.max_answer_headers) {
    receiving.too_large = true;
    return 0;
  }
  const std::string_view text = trim(line);
  if (!receiving.head_complete && text.starts_with("HTTP/")) {
    begin_head(receiving, text);
  } else if (text.empty()) {
    // The end of an interim response's head is not the end of the final one's.
    receiving.head_complete = receiving.answer.status >= 200;
  } else if (const std::size_t colon = text.find(':'); colon != std::string_view::npos && !receiving.head_complete) {
    receiving.answer.headers.push_back(
        {.name = std::string(text.substr(0, colon)), .value = std::string(trim(text.substr(colon + 1)))});
  }
  return line.size();
}

std::size_t take_body(char* data, std::size_t size, std::size_t count, void* context) {
  auto& receiving = *static_cast<Receiving*>(context);
  const std::size_t bytes = size * count;
  receiving.has_news = true;
  if (!receiving.streams() && bytes > receiving.options.max_answer_body - receiving.answer.body.size()) {
    receiving.too_large = true;
    return 0;
  }
  receiving.answer.body.append(data, bytes);
  return bytes;
}

void append(List& list, const std::string& line) {
  curl_slist* longer = curl_slist_append(list.get(), line.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  [[maybe_unused]] const curl_slist* extended = list.release();
  list.reset(longer);
}

List header_list(const Try& what) {
  List list;
  bool typed = false;
  for (const Header& header : what.headers) {
    // "Name;" is curl's syntax for a header without a value.
    append(list, header.value.empty() ? header.name + ";" : header.name + ": " + header.value);
    typed = typed || iequals(header.name, "Content-Type");
  }
  append(list, "Expect:");                    // do not wait for a 100 Continue, which few servers send
  if (!typed) append(list, "Content-Type:");  // curl would label any body as a form
  return list;
}

void set_method(CURL* easy, const Request& request) {
  // Methods whose body may be empty are sent with Content-Length: 0.
  const bool has_body =
      !request.body.empty() || request.method == "POST" || request.method == "PUT" || request.method == "PATCH";
  if (has_body) {
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.data());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  } else if (request.method == "HEAD") {
    curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  }
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
}

void set_options(CURL* easy, const Try& what) {
  const Options& options = what.options;
  curl_easy_setopt(easy, CURLOPT_URL, what.request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  // One request per connection, so that it is known how much was sent.
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);  // a proxy's response to CONNECT is not the answer
  if (what.proxies == Proxies::none) curl_easy_setopt(easy, CURLOPT_PROXY, "");
  // Zero means no limit to curl, and too large a number is an error.
  const Duration timeout = std::clamp<Duration>(what.timeout, std::chrono::milliseconds(1), std::chrono::days(1));
  if (what.receiver == nullptr) curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
  const Duration connect = std::min(timeout, options.connect_timeout);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(connect.count()));
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  if (!options.ca_file.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, options.ca_file.c_str());
  if (!options.client_certificate.empty()) {
    curl_easy_setopt(easy, CURLOPT_SSLCERT, options.client_certificate.c_str());
    curl_easy_setopt(easy, CURLOPT_SSLKEY, options.client_certificate_key.c_str());
    // Set even if empty: otherwise OpenSSL would prompt on the terminal.
    curl_easy_setopt(easy, CURLOPT_KEYPASSWD, options.client_certificate_passphrase.c_str());
  }
  if (!options.user_agent.empty()) curl_easy_setopt(easy, CURLOPT_USERAGENT, options.user_agent.c_str());
  set_method(easy, what.request);
}

// Measures the silence of a connection. Time spent in the receiver does not count.
class Silence {
 public:
  explicit Silence(Duration longest)
      : longest_(std::clamp<Duration>(longest, std::chrono::milliseconds(1), std::chrono::days(1))) {
    ended();
  }

  void ended() { until_ = monotonic_now() + longest_; }
  std::chrono::milliseconds left() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until_ - monotonic_now());
    return std::max(left, std::chrono::milliseconds(0));
  }

 private:
  Duration longest_;
  std::chrono::nanoseconds until_{};
};

// Runs the transfer until curl is done (nullopt), or returns the reason to abort it.
std::optional<CURLcode> drive(CURLM* multi, Receiving& receiving, Duration timeout, const std::stop_token& stop) {
  constexpr std::chrono::milliseconds longest_poll(1000);  // curl's own timers and a stop end it earlier
  Silence silence(timeout);
  int running = 1;
  while (!stop.stop_requested()) {
    const CURLMcode performed = curl_multi_perform(multi, &running);
    if (receiving.give() == Reading::leave) return CURLE_ABORTED_BY_CALLBACK;
    if (performed != CURLM_OK || running == 0) return std::nullopt;
    if (std::exchange(receiving.has_news, false)) silence.ended();
    // Without a receiver, curl itself limits the whole try.
    const auto left = receiving.receiver == nullptr ? longest_poll : std::min(longest_poll, silence.left());
    if (left.count() == 0) return CURLE_OPERATION_TIMEDOUT;
    curl_multi_poll(multi, nullptr, 0, static_cast<int>(left.count()), nullptr);
  }
  return std::nullopt;
}

// CURLE_ABORTED_BY_CALLBACK if a stop was requested or the receiver has left.
CURLcode run(CURL* easy, Receiving& receiving, Duration timeout, const std::stop_token& stop) {
  const Multi multi = made(Multi(curl_multi_init()));
  curl_multi_add_handle(multi.get(), easy);
  CURLcode code = CURLE_ABORTED_BY_CALLBACK;
  {
    const std::stop_callback wake(stop, [&multi] { curl_multi_wakeup(multi.get()); });
    const std::optional<CURLcode> left = drive(multi.get(), receiving, timeout, stop);
    int queued = 0;
    const CURLMsg* message = left ? nullptr : curl_multi_info_read(multi.get(), &queued);
    if (message != nullptr && message->msg == CURLMSG_DONE) code = message->data.result;
    if (left) code = *left;
  }
  curl_multi_remove_handle(multi.get(), easy);
  return code;
}

bool was_sent(CURL* easy) {
  long head = 0;
  curl_off_t body = 0;
  curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &head);
  curl_easy_getinfo(easy, CURLINFO_SIZE_UPLOAD_T, &body);
  return head > 0 || body > 0;
}

Happened happened(CURLcode code, const Receiving& receiving, bool sent) {
  if (receiving.too_large) return Happened::answer_too_large;
  switch (static_cast<int>(code)) {
    case CURLE_OK:
      // curl takes a truncated head for a complete one.
      return receiving.head_complete ? Happened::success : Happened::lost_after_sending;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY: return Happened::not_resolved;
    case CURLE_COULDNT_CONNECT: return Happened::not_connected;
    case CURLE_OPERATION_TIMEDOUT: return sent ? Happened::timed_out : Happened::not_connected;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR: return Happened::not_trusted;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL: return Happened::not_http;
    case CURLE_ABORTED_BY_CALLBACK: return Happened::cancelled;
    default: return sent ? Happened::lost_after_sending : Happened::lost_before_sending;
  }
}

}  // namespace

CurlTransport::CurlTransport() {
  static std::once_flag initialised;
  std::call_once(initialised, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

Tried CurlTransport::perform(const Try& what, const std::stop_token& stop) {
  const Easy easy = made(Easy(curl_easy_init()));
  const List headers = header_list(what);
  Receiving receiving{.options = what.options, .receiver = what.receiver};
  std::array<char, CURL_ERROR_SIZE> error{};
  set_options(easy.get(), what);
  curl_easy_setopt(easy.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(easy.get(), CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(easy.get(), CURLOPT_HEADERDATA, &receiving);
  curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(easy.get(), CURLOPT_WRITEDATA, &receiving);
  curl_easy_setopt(easy.get(), CURLOPT_ERRORBUFFER, error.data());

  const CURLcode code = run(easy.get(), receiving, what.timeout, stop);
  Tried tried{.happened = happened(code, receiving, was_sent(easy.get())), .answer = std::move(receiving.answer)};
  if (tried.happened == Happened::answer_too_large) {
    tried.answer.body.clear();
    tried.detail = fmt::format("the response is larger than {}", format_size(what.options.max_answer_body));
    if (!receiving.head_complete) {
      tried.answer = {};
      tried.detail =
          fmt::format("the headers of the response are larger than {}", format_size(what.options.max_answer_headers));
    }
  } else if (tried.happened != Happened::success) {
    tried.answer.body.clear();
    if (receiving.head_complete) tried.cut_off = std::move(tried.answer);
    tried.answer = {};
    if (code == CURLE_OK)
      tried.detail = "the connection was closed in the middle of the response";
    else if (code == CURLE_PARTIAL_FILE)
      tried.detail = "the response broke off";
    else if (tried.happened != Happened::cancelled)  // curl's message for that is about its callbacks
      tried.detail = error[0] != '\0' ? error.data() : curl_easy_strerror(code);
  }
  return tried;
}

std::string CurlTransport::refusal(const Request& request) const {
  const Url url = made(Url(curl_url()));
  const CURLUcode code = curl_url_set(url.get(), CURLUPART_URL, request.url.c_str(), 0);
  return code == CURLUE_OK ? std::string() : std::string("not a URL: ") + curl_url_strerror(code);
}

}  // namespace once::client
