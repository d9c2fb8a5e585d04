#include "http/service.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/text.hpp"
#include "core/reason.hpp"
#include "http/body.hpp"
#include "http/buffer.hpp"
#include "http/endpoint.hpp"
#include "http/net.hpp"

namespace once::http {

namespace {

constexpr Duration idle_limit = std::chrono::seconds(75);
constexpr Duration request_limit = std::chrono::seconds(60);
constexpr Duration read_limit = std::chrono::seconds(10);
constexpr Duration accept_wait = std::chrono::hours(1);
constexpr Duration accept_pause = std::chrono::milliseconds(100);
constexpr Duration linger_limit = std::chrono::seconds(2);
// The limit for all pending responses together once the service is stopped, however slowly they are read, because
// stop() waits.
constexpr Duration stop_limit = std::chrono::seconds(1);
constexpr HeadLimits service_head_limits;
constexpr std::size_t service_window = 4096;
constexpr std::size_t most_discarded = std::size_t{16} << 20U;
constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::string_view unix_prefix = "unix:";

void write_head(std::string& out, const ServiceResponse& response, Persistence persistence) {
  out = "HTTP/1.1 ";
  append_number(out, static_cast<std::uint64_t>(response.status));
  out.append(" ").append(reason_phrase(response.status)).append("\r\n").append(response.fields);
  if (response.stream) {
    out.append("Content-Type: ").append(response.content_type).append("\r\n");
  } else if (response.status != 204) {
    out.append("Content-Type: ").append(response.content_type).append("\r\nContent-Length: ");
    append_number(out, response.body.size());
    out.append("\r\n");
  }
  if (persistence == Persistence::close) out.append("Connection: close\r\n");
  out.append("\r\n");
}

}  // namespace

ServiceResponse ServiceHandler::refuse(Refused what, std::string_view why) {
  switch (what) {
    case Refused::bad_request: return {.status = 400, .body = std::string(why)};
    case Refused::body_too_large: return {.status = 413, .body = std::string(why)};
    case Refused::too_many_connections:
    case Refused::no_memory: return {.status = 503, .body = std::string(why)};
  }
  return {.status = 500};
}

class Service::Connection final : public Link, private Socket::Watcher {
 public:
  Connection(Service& service, Loop& loop, const Socket::Accepted& accepted)
      : service_(service), socket_(loop, accepted.fd), peer_(peer_text(accepted.peer)) {
    ++service_.count_;
    service_.handler_.connected();
    buffer_.grow(service_head_limits.max_bytes + service_window);
    move_to(service_.waiting_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    unlink();
    let_body_go();
    --service_.count_;
    service_.handler_.disconnected();
  }

  void cancel() { socket_.cancel(); }
  void cut_off() {
    socket_.reset_on_close();
    socket_.cancel();
  }

  void displace() {
    displaced_ = true;
    unlink();
    socket_.cancel();
    service_.handler_.displaced();
  }

  Task<void> run() {
    while (!displaced_) {
      buffer_.rewind();
      const MessageRead head = co_await read_head();
      if (head == MessageRead::closed) co_return;
      buffer_.pin(head_.size);
      let_body_go();
      const Admission admission = service_.handler_.admit(request());
      Persistence after = Persistence::close;
      if (admission.refusal && head_.framing.has_body()) {
        co_await end_with(*admission.refusal);
      } else if (admission.refusal) {
        after = co_await reply(*admission.refusal);
      } else {
        const MessageRead body = co_await read_body(std::min(admission.max_body, service_.limits_.max_body));
        if (body == MessageRead::whole) after = co_await answer();
      }
      if (after == Persistence::close) co_return;
      buffer_.unpin();
    }
  }

  // Replies with the reason and closes.
  Task<void> refuse(Refused what, std::string_view why) {
    const ServiceResponse response = service_.handler_.refuse(what, why);
    co_await end_with(response);
  }

 private:
  void unlink() {
    if (list_ == nullptr) return;
    --list_->size;
    list_ = nullptr;
    previous->next = next;
    next->previous = previous;
  }
  // Appends it as the newest. A displaced connection stays out of the lists.
  void move_to(List& list) {
    if (displaced_) return;
    unlink();
    list_ = &list;
    ++list.size;
    previous = list.ends.previous;
    next = &list.ends;
    previous->next = next->previous = this;
  }

  ServiceRequest request() const { return {.head = head_, .body = body_, .client_left = client_left_, .peer = peer_}; }

  // These return whether the connection is kept.
  Task<Persistence> answer() {
    move_to(service_.working_);
    watch_client();
    const ServiceRequest asked = request();
    const ServiceResponse response = co_await service_.handler_.handle(asked);
    let_body_go();
    socket_.unwatch();
    if (!service_.cut_off_) socket_.restore();  // this response is sent even while stopping
    if (!response.stream) move_to(service_.waiting_);
    if (response.drop || service_.cut_off_) {
      socket_.reset_on_close();
      co_return Persistence::close;
    }
    const Persistence after = co_await reply(response);
    co_return after;
  }

  Task<Persistence> reply(const ServiceResponse& response) {
    if (service_.stopping_ || response.stream) head_.persistence = Persistence::close;
    write_head(out_, response, head_.persistence);
    const std::string_view body = head_.method == Method::head ? std::string_view() : response.body;
    const IoResult sent = co_await socket_.write_all(out_, body, read_limit);
    if (sent.status != Io::ok) co_return Persistence::close;
    if (response.stream && head_.method != Method::head) co_await stream(*response.stream);
    if (head_.persistence == Persistence::keep) co_return Persistence::keep;
    if (!buffer_.empty() || socket_.peer_now() == Socket::Peer::bytes) co_await linger();
    co_return Persistence::close;
  }

  // Sends the response, then closes once the client has had time to read it.
  Task<void> end_with(const ServiceResponse& response) {
    move_to(service_.refused_);
    write_head(out_, response, Persistence::close);
    const std::string_view body = head_.method == Method::head ? std::string_view() : response.body;
    const IoResult sent = co_await socket_.write_all(out_, body, read_limit);
    if (sent.status == Io::ok) co_await linger();
  }

  // Closing with unread bytes would reset the connection, and the response in flight would be lost.
  Task<void> linger() {
    move_to(service_.refused_);
    socket_.shut_down_writing();
    std::string unread(service_window * 4, '\0');
    const auto until = socket_.loop().now() + read_limit;
    for (std::size_t discarded = 0; discarded < most_discarded && socket_.loop().now() < until;) {
      const IoResult got = co_await socket_.read_some(unread, linger_limit);
      if (got.status != Io::ok) co_return;
      discarded += got.bytes;
    }
  }

  // Sends the pieces of the stream, and watches the client in the pauses: it should send nothing, so any event ends the
  // stream.
  Task<void> stream(ServiceStream& source) {
    std::array<char, 1> unexpected{};
    while (!service_.stopping_) {
      out_ = source.next();
      if (out_.empty()) co_return;
      const IoResult sent = co_await socket_.write_all(out_, service_.limits_.stream_stall);
      if (sent.status != Io::ok) co_return;
      const IoResult got = co_await socket_.read_some(unexpected, source.pause());
      if (got.status != Io::timed_out) co_return;
    }
  }

  void watch_client() {
    const auto moved = socket_.watch(*this);
    client_left_ = moved && *moved != Socket::Peer::bytes;
  }
  void peer_moved(Socket::Peer what) override { client_left_ = what != Socket::Peer::bytes; }

  enum class MessageRead : std::uint8_t {
    whole,
    closed,  // refused, or the client has left: the connection ends
  };

  Task<MessageRead> read_head() {
    began_ = socket_.loop().now();
    head_.method = Method::other;
    HeadProgress progress;
    while (true) {
      if (!buffer_.empty() && progress.worth_parsing(buffer_.unread(), service_head_limits)) {
        const ParseResult result = parse(buffer_.unread(), service_head_limits, head_);
        if (result.parsed == Parsed::complete) co_return MessageRead::whole;
        if (result.parsed == Parsed::bad) {
          co_await refuse(Refused::bad_request, describe(result.error));
          co_return MessageRead::closed;
        }
      }
      const bool begun = !buffer_.empty();
      const Duration limit = begun ? std::min(read_limit, left()) : idle_limit;
      const IoResult got = co_await socket_.read_some(buffer_.room(), limit);
      if (got.status != Io::ok || (begun && left() == Duration::zero())) co_return MessageRead::closed;
      if (!begun) began_ = socket_.loop().now();
      buffer_.commit(got.bytes);
    }
  }

  // The time left to receive the whole request.
  Duration left() const {
    const auto spent = std::chrono::floor<Duration>(socket_.loop().now() - began_);
    return std::clamp(request_limit - spent, Duration::zero(), request_limit);
  }

  // Reserves by bytes received, not by bytes announced.
  Reserved make_body_room(std::size_t bytes) {
    const std::size_t needed = body_.size() + bytes;
    const std::size_t room = std::max(body_.capacity(), service_window);
    if (needed <= room) return Reserved::yes;
    std::size_t wanted = std::max(needed, room * 2);
    if (head_.framing.kind == Framing::Kind::length)
      wanted = std::max<std::size_t>(needed, std::min<std::uint64_t>(wanted, head_.framing.length));
    if (service_.handler_.take_memory(wanted - counted_) == Reserved::no) return Reserved::no;
    counted_ = wanted;
    body_.reserve(wanted);
    return Reserved::yes;
  }

  void let_body_go() {
    body_.clear();
    if (counted_ == 0) return;
    std::string().swap(body_);
    service_.handler_.give_back_memory(std::exchange(counted_, 0));
  }

  Task<MessageRead> read_body(std::size_t most) {
    BodyDecoder decoder(head_.framing);
    constexpr std::string_view too_large = "The body is larger than the limit.";
    constexpr std::string_view no_memory = "There is no memory for the body now. Retry later.";
    if (head_.framing.kind == Framing::Kind::length && head_.framing.length > most) {
      co_await refuse(Refused::body_too_large, too_large);
      co_return MessageRead::closed;
    }
    if (head_.expects_continue) {
      const IoResult sent = co_await socket_.write_all(go_on, read_limit);
      if (sent.status != Io::ok) co_return MessageRead::closed;
    }
    while (true) {
      const BodyDecoder::Step step = decoder.next(buffer_);
      if (step.kind == BodyDecoder::Kind::end) co_return MessageRead::whole;
      if (step.kind == BodyDecoder::Kind::bad) {
        co_await refuse(Refused::bad_request, "The body has invalid framing.");
        co_return MessageRead::closed;
      }
      if (step.kind == BodyDecoder::Kind::data) {
        const bool fits = body_.size() + step.data.size() <= most;
        if (fits && make_body_room(step.data.size()) == Reserved::yes) {
          body_.append(step.data);
          continue;
        }
        const Refused why = fits ? Refused::no_memory : Refused::body_too_large;
        const std::string_view detail = fits ? no_memory : too_large;
        co_await refuse(why, detail);
        co_return MessageRead::closed;
      }
      const IoResult got = co_await socket_.read_some(buffer_.room(), std::min(read_limit, left()));
      if (left() == Duration::zero()) co_return MessageRead::closed;
      if (got.status != Io::ok) co_return MessageRead::closed;
      buffer_.commit(got.bytes);
    }
  }

  Service& service_;
  List* list_ = nullptr;
  Socket socket_;
  Buffer buffer_;
  RequestHead head_;
  std::string body_;
  std::size_t counted_ = 0;  // bytes of the handler's memory that it has reserved
  std::string out_;
  std::string peer_;
  bool client_left_ = false;
  bool displaced_ = false;
  std::chrono::nanoseconds began_{};  // when the first byte of the current request arrived
};

Service::Service(Loop& loop, int listener, ServiceHandler& handler, const ServiceLimits& limits)
    : listener_(loop, listener), handler_(handler), limits_(limits) {
  keep_spare();
  stop_timer_.service = this;
  stop_timer_.fire = [](Timer& timer) { static_cast<StopTimer&>(timer).service->cut_off(); };
  spawn(accept_all());
}

Service::~Service() {
  listener_.loop().disarm(stop_timer_);
  try_close_spare();
}

// A displaced connection is closed in the loop's next round.
bool Service::try_make_room() {
  const auto displace_oldest = [](List& list) { static_cast<Connection*>(list.ends.next)->displace(); };
  if (refused_.size > 0 && refused_.size >= limits_.max_connections) displace_oldest(refused_);
  if (waiting_.size + working_.size < limits_.max_connections) return true;
  if (waiting_.size == 0) return false;
  displace_oldest(waiting_);
  return true;
}

Task<void> Service::serve_connection(Socket::Accepted accepted) {
  {
    const bool room = try_make_room();
    Connection connection(*this, listener_.loop(), accepted);
    if (!room) {
      co_await connection.refuse(Refused::too_many_connections, "The limit of connections is reached. Retry later.");
    } else {
      co_await connection.run();
    }
  }
  keep_spare();
  leave();
}

Task<void> Service::accept_all() {
  while (!stopping_) {
    const Socket::Accepted accepted = listener_.accept();
    if (accepted.fd >= 0) {
      spawn(serve_connection(accepted));
      listener_.loop().spend(0);
      if (listener_.loop().spent()) co_await listener_.readable(accept_wait);
    } else if (errno == EAGAIN) {
      const Io ready = co_await listener_.readable(accept_wait);
      if (ready == Io::failed) co_await sleep_for(listener_.loop(), accept_pause);
    } else if (const int error = errno; is_out_of_descriptors(error)) {
      listener_.loop().report_out_of_descriptors(DescriptorUse::service, error_text(error));
      // Another thread may take the freed descriptor first.
      if (!try_close_spare()) co_await sleep_for(listener_.loop(), accept_pause);
    } else {
      co_await sleep_for(listener_.loop(), accept_pause);
    }
  }
  accepting_ = false;
  leave();
}

void Service::keep_spare() {
  if (spare_ < 0) spare_ = listener_.loop().net().open_spare();
}

bool Service::try_close_spare() {
  if (spare_ < 0) return false;
  listener_.loop().net().close(std::exchange(spare_, -1));
  return true;
}

template <class Each>
void Service::for_each_connection(Each each) {
  for (const List* list : {&waiting_, &working_, &refused_}) {
    for (Link* link = list->ends.next; link != &list->ends; link = link->next) each(*static_cast<Connection*>(link));
  }
}

void Service::leave() {
  if (stopping_ && !accepting_ && count_ == 0) listener_.loop().stop();
}

void Service::stop() {
  stopping_ = true;
  listener_.cancel();
  for_each_connection([](Connection& connection) { connection.cancel(); });
  listener_.loop().arm(stop_timer_, stop_limit);
}

void Service::cut_off() {
  cut_off_ = true;
  for_each_connection([](Connection& connection) { connection.cut_off(); });
}

void ServiceThread::begin_stop() {
  if (!thread_.joinable() || std::exchange(stop_begun_, true)) return;
  run = [](Work& work) { static_cast<ServiceThread&>(work).service_->stop(); };
  loop_.post(*this);
}

void ServiceThread::stop() {
  if (!thread_.joinable()) return;
  begin_stop();
  thread_.join();
  if (address_.starts_with(unix_prefix) && !handed_over_) ::unlink(address_.c_str() + unix_prefix.size());
}

Result<void> ServiceThread::start(std::string_view listen, const std::vector<int>& inherited, const Check& check) {
  int listener = -1;
  if (!inherited.empty()) {
    listener = inherited.front();
    address_ = listen.starts_with(unix_prefix) ? std::string(listen) : bound_endpoint(listener).text();
  } else if (listen.starts_with(unix_prefix)) {
    const auto opened = listen_on_unix(std::string(listen.substr(unix_prefix.size())));
    if (!opened) return std::unexpected(opened.error());
    listener = *opened;
    address_ = listen;
  } else {
    const auto endpoint = resolve_listener(listen);
    if (!endpoint) return std::unexpected(endpoint.error());
    const auto listeners = listen_on(*endpoint, 1);
    if (!listeners) return std::unexpected(listeners.error());
    listener = listeners->front();
    address_ = bound_endpoint(listener).text();
  }
  if (auto fit = check ? check(address_) : Result<void>(); !fit) {
    ::close(listener);
    return fit;
  }
  listener_ = listener;
  thread_ = std::jthread([this, listener] {
    service_ = std::make_unique<Service>(loop_, listener, handler_, limits_);
    loop_.run();
    service_.reset();
    ended_.store(true, std::memory_order_release);
  });
  return {};
}

}  // namespace once::http
