#include "gateway/upstream/upstream_watch.hpp"

#include <string>

#include "base/task.hpp"
#include "http/kernel_net.hpp"
#include "http/upstream.hpp"

namespace once::gateway {

namespace {

constexpr Duration first_check = std::chrono::milliseconds(10);
constexpr http::PoolLimits kept_none{.max_idle = 0};

std::string request_for(const Upstream& upstream, const ServerState& server) {
  const bool named = upstream.host != Upstream::keep_host && upstream.host != Upstream::own_host;
  return "GET " + upstream.health.path + " HTTP/1.1\r\nHost: " + (named ? upstream.host : server.authority) +
         "\r\nUser-Agent: once-health\r\nAccept: */*\r\nConnection: close\r\n\r\n";
}

}  // namespace

// Checks one server: a timer starts a check, which arms the timer again when it ends.
class UpstreamWatch::Check final : private Timer {
 public:
  Check(UpstreamWatch& watch, const UpstreamState& upstream, ServerState& server)
      : watch_(watch),
        upstream_(upstream.settings),
        server_(server),
        tls_(tls_peer(upstream, server, watch.log_)),
        pool_(watch.loop_, server.addresses, kept_none, http::response_head_limits, nullptr, tls_.get()),
        request_(request_for(upstream_, server)) {
    fire = [](Timer& timer) { spawn(static_cast<Check&>(timer).run()); };
    watch_.loop_.arm(*this, first_check);
  }
  Check(const Check&) = delete;
  Check& operator=(const Check&) = delete;
  ~Check() { watch_.loop_.disarm(*this); }

  void stop() {
    watch_.loop_.disarm(*this);
    pool_.cancel_connects();
    if (socket_ != nullptr) socket_->cancel();
  }

 private:
  Task<void> run() {
    ++watch_.running_;
    const Answer answer = co_await ask();
    if (!watch_.stopping_) {
      const bool good = answer == Answer::good;
      if (answer != Answer::not_asked) {
        log_change(watch_.log_, server_.health.checked(good), upstream_, server_,
                   good ? "health checks pass" : "health checks fail");
      }
      watch_.loop_.arm(*this, upstream_.health.interval);
    }
    watch_.ended();
  }

  enum class Answer : std::uint8_t {
    good,
    bad,
    not_asked,  // no check was made for lack of a descriptor; says nothing about the server
  };

  // 2xx and 3xx are good.
  Task<Answer> ask() {
    const auto deadline = watch_.loop_.now() + upstream_.health.timeout;
    http::ConnectFault fault{};
    const http::UpstreamConnectionPtr connection = co_await pool_.connect(upstream_.health.timeout, &fault);
    if (!connection && fault == http::ConnectFault::out_of_descriptors) co_return Answer::not_asked;
    if (!connection || watch_.stopping_) co_return Answer::bad;
    socket_ = &connection->socket();
    const http::IoResult sent = co_await socket_->write_all(request_, upstream_.health.timeout);
    bool good = false;
    while (sent.status == http::Io::ok) {
      const auto read = co_await connection->read_head(Method::get, deadline);
      if (read != http::UpstreamConnection::HeadRead::ok) break;
      const int status = connection->head().status;
      good = status >= 200 && status < 400;
      if (status >= 200) break;
      connection->drop_head();
    }
    socket_ = nullptr;
    co_return good ? Answer::good : Answer::bad;
  }

  UpstreamWatch& watch_;
  const Upstream& upstream_;
  ServerState& server_;
  std::unique_ptr<http::TlsPeer> tls_;
  http::UpstreamPool pool_;
  std::string request_;
  http::Socket* socket_ = nullptr;
};

UpstreamWatch::UpstreamWatch(const std::vector<std::unique_ptr<UpstreamState>>& upstreams, const Log& log,
                             http::FaultListener& faults, http::Net* net)
    : log_(log), loop_(net != nullptr ? *net : http::kernel_net()) {
  loop_.listen(faults);
  for (const auto& upstream : upstreams) {
    if (upstream->settings.health.path.empty()) continue;
    for (const auto& server : upstream->servers) {
      checks_.push_back(std::make_unique<Check>(*this, *upstream, *server));
    }
  }
  if (checks_.empty()) return;
  run = [](Work& work) { static_cast<UpstreamWatch&>(work).stop_checks(); };
  if (net == nullptr) thread_ = std::jthread([this] { loop_.run(); });
}

UpstreamWatch::~UpstreamWatch() {
  if (!thread_.joinable()) return;
  stop();
  thread_.join();
}

void UpstreamWatch::stop_checks() {
  stopping_ = true;
  for (const auto& check : checks_) check->stop();
  if (running_ == 0) loop_.stop();
}

void UpstreamWatch::ended() {
  if (--running_ == 0 && stopping_) loop_.stop();
}

}  // namespace once::gateway
