#include "http/service.hpp"

#include <cerrno>

#include "base/text.hpp"
#include "core/reason.hpp"
#include "http/body.hpp"
#include "http/buffer.hpp"
#include "http/endpoint.hpp"

namespace once::http {

namespace {

constexpr Duration idle_limit = std::chrono::seconds(75);
constexpr Duration read_limit = std::chrono::seconds(10);
constexpr Duration accept_wait = std::chrono::hours(1);
constexpr Duration accept_pause = std::chrono::milliseconds(100);
constexpr HeadLimits limits;
constexpr std::size_t body_window = 4096;
constexpr std::size_t max_body = std::size_t{1} << 20U;

void write_head(std::string& out, const ServiceResponse& response, Persistence persistence) {
  out = "HTTP/1.1 ";
  append_number(out, static_cast<std::uint64_t>(response.status));
  out.append(" ").append(reason_phrase(response.status)).append("\r\n").append(response.fields);
  if (response.status != 204) {
    out.append("Content-Type: ").append(response.content_type).append("\r\nContent-Length: ");
    append_number(out, response.body.size());
    out.append("\r\n");
  }
  if (persistence == Persistence::close) out.append("Connection: close\r\n");
  out.append("\r\n");
}

}  // namespace

class Service::Connection {
 public:
  Connection(Service& service, Loop& loop, int fd) : service_(service), socket_(loop, fd) {
    buffer_.grow(limits.max_bytes + body_window);
    next_ = service_.connections_;
    if (next_ != nullptr) next_->previous_ = this;
    service_.connections_ = this;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    (previous_ != nullptr ? previous_->next_ : service_.connections_) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
  }

  void cancel() { socket_.cancel(); }
  Connection* next() const { return next_; }

  Task<void> run() {
    while (true) {
      buffer_.rewind();
      const bool got_head = co_await read_head();
      if (!got_head) co_return;
      buffer_.pin(head_.size);
      const bool got_body = co_await read_body();
      if (!got_body) co_return;
      const ServiceRequest request{.head = head_, .body = body_};
      const ServiceResponse response = co_await service_.handler_.handle(request);
      if (response.drop) {
        socket_.reset_on_close();
        co_return;
      }
      write_head(out_, response, head_.persistence);
      const std::string_view body = head_.method == Method::head ? std::string_view() : response.body;
      const IoResult sent = co_await socket_.write_all(out_, body, read_limit);
      if (sent.status != Io::ok || head_.persistence == Persistence::close) co_return;
      buffer_.unpin();
    }
  }

 private:
  Task<bool> read_head() {
    while (true) {
      if (!buffer_.empty()) {
        const ParseResult result = parse(buffer_.unread(), limits, head_);
        if (result.parsed == Parsed::complete) co_return true;
        if (result.parsed == Parsed::bad) {
          const ServiceResponse refused{.status = 400, .body = describe(result.error)};
          write_head(out_, refused, Persistence::close);
          co_await socket_.write_all(out_, refused.body, read_limit);
          co_return false;
        }
      }
      const IoResult got = co_await socket_.read_some(buffer_.room(), buffer_.empty() ? idle_limit : read_limit);
      if (got.status != Io::ok) co_return false;
      buffer_.commit(got.bytes);
    }
  }

  Task<bool> read_body() {
    BodyDecoder decoder(head_.framing);
    body_.clear();
    while (true) {
      const BodyDecoder::Step step = decoder.next(buffer_);
      if (step.kind == BodyDecoder::Kind::end) co_return true;
      if (step.kind == BodyDecoder::Kind::bad) co_return false;
      if (step.kind == BodyDecoder::Kind::data) {
        body_.append(step.data);
        if (body_.size() > max_body) co_return false;
        continue;
      }
      const IoResult got = co_await socket_.read_some(buffer_.room(), read_limit);
      if (got.status != Io::ok) co_return false;
      buffer_.commit(got.bytes);
    }
  }

  Service& service_;
  Connection* previous_ = nullptr;
  Connection* next_ = nullptr;
  Socket socket_;
  Buffer buffer_;
  RequestHead head_;
  std::string body_;
  std::string out_;
};

Service::Service(Loop& loop, int listener, ServiceHandler& handler) : listener_(loop, listener), handler_(handler) {
  spawn(accept_all());
}

Service::~Service() = default;

Task<void> Service::serve_connection(int fd) {
  {
    Connection connection(*this, listener_.loop(), fd);
    co_await connection.run();
  }
  leave();
}

Task<void> Service::accept_all() {
  while (!stopping_) {
    const int fd = listener_.accept();
    if (fd >= 0) {
      spawn(serve_connection(fd));
    } else if (errno == EAGAIN) {
      co_await listener_.readable(accept_wait);
    } else {
      co_await sleep_for(listener_.loop(), accept_pause);
    }
  }
  accepting_ = false;
  leave();
}

void Service::leave() {
  if (stopping_ && !accepting_ && connections_ == nullptr) listener_.loop().stop();
}

void Service::stop() {
  stopping_ = true;
  listener_.cancel();
  for (Connection* connection = connections_; connection != nullptr; connection = connection->next()) {
    connection->cancel();
  }
}

ServiceThread::~ServiceThread() {
  if (!thread_.joinable()) return;
  run = [](Work& work) { static_cast<ServiceThread&>(work).service_->stop(); };
  loop_.post(*this);
  thread_.join();
}

Result<void> ServiceThread::start(std::string_view listen) {
  const auto endpoint = resolve_listener(listen);
  if (!endpoint) return std::unexpected(endpoint.error());
  const auto listeners = listen_on(*endpoint, 1);
  if (!listeners) return std::unexpected(listeners.error());
  address_ = bound_endpoint(listeners->front()).text();
  thread_ = std::jthread([this, fd = listeners->front()] {
    service_ = std::make_unique<Service>(loop_, fd, handler_);
    loop_.run();
    service_.reset();
  });
  return {};
}

}  // namespace once::http
