#include "once/client.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "client/curl_transport.hpp"
#include "client/operation.hpp"

namespace once::client {

namespace {

class SystemTimeline final : public Timeline {
 public:
  Duration now() const override { return std::chrono::duration_cast<Duration>(monotonic_now()); }

  void wait(Duration duration, const std::stop_token& stop) override {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, stop, duration, [] { return false; });
  }
};

class SystemPorts {
 public:
  Ports ports() { return {.clock = clock_, .random = random_, .transport = transport_, .timeline = timeline_}; }

 private:
  SystemClock clock_;
  SystemRandom random_;
  CurlTransport transport_;
  SystemTimeline timeline_;
};

}  // namespace

std::string_view Answer::header(std::string_view name) const {
  for (const Header& each : headers) {
    if (iequals(each.name, name)) return each.value;
  }
  return {};
}

Client::Client(Options options) : options_(std::make_unique<const Options>(std::move(options))) {}
Client::~Client() = default;
Client::Client(Client&& other) noexcept = default;
Client& Client::operator=(Client&& other) noexcept = default;

Result Client::send(const Request& request, const Watcher& watcher, std::stop_token stop) const {
  SystemPorts system;
  return run_operation({.options = *options_, .request = request, .watcher = watcher, .stop = stop}, system.ports());
}

StreamResult Client::stream(const Request& request, const Reader& reader, const Watcher& watcher,
                            std::stop_token stop) const {
  SystemPorts system;
  return run_stream({.options = *options_, .request = request, .watcher = watcher, .stop = stop}, reader,
                    system.ports());
}

StopResult Client::stop(const Request& request, const Watcher& watcher, std::stop_token stop) const {
  SystemPorts system;
  return run_stop({.options = *options_, .request = request, .watcher = watcher, .stop = stop}, system.ports());
}

}  // namespace once::client
