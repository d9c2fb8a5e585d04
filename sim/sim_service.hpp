// The server of the admin interface and the claims API (http::Service) on the simulated network. Its handler answers
// each request with its own bytes, after a while, and refuses some before their bodies are read.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "http/service.hpp"
#include "sim/sim_net.hpp"

namespace once::sim {

class SimService final : private http::ServiceHandler, private Work {
 public:
  struct Parts {
    SimNet& net;
    http::Endpoint listen;
    http::FaultListener& faults;
    std::size_t max_connections;
    // Returns what is wrong with a request; empty: nothing.
    std::function<std::string(const http::ServiceRequest&)> judge;
    std::function<void(const std::string&)> wrong;
  };
  explicit SimService(Parts parts);
  SimService(const SimService&) = delete;
  SimService& operator=(const SimService&) = delete;

  http::Loop& loop() { return loop_; }
  // The loop ends when the last connection has.
  void stop() { loop_.post(*this); }

  // What the service has left behind when it ended; both should be 0.
  std::size_t connections() const { return connections_; }
  std::size_t memory() const { return memory_; }

 private:
  static constexpr std::size_t most_memory = 20'000;

  http::Admission admit(const http::ServiceRequest& request) override;
  Task<http::ServiceResponse> handle(const http::ServiceRequest& request) override;
  void connected() override { ++connections_; }
  void disconnected() override { --connections_; }
  Reserved take_memory(std::size_t bytes) override;
  void give_back_memory(std::size_t bytes) override { memory_ -= bytes; }
  Draw& draw() { return parts_.net.network().world().draw; }

  Parts parts_;
  http::Loop loop_;
  std::size_t connections_ = 0;
  std::size_t memory_ = 0;
  std::unique_ptr<http::Service> service_;
};

}  // namespace once::sim
