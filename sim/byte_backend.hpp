// The backend as a server on the simulated network. It reads requests with a parser of its own, judges them, does the
// work and answers in every shape that servers have, well formed or not. It also looks at what gateways send and get on
// each connection, because the model must know when a request was on its way and when its answer was there.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "sim/byte_setup.hpp"
#include "sim/history.hpp"
#include "sim/message_reader.hpp"
#include "sim/setup.hpp"
#include "sim/wires.hpp"

namespace once::sim {

class ByteBackend {
 public:
  ByteBackend(Network& network, History& history, const Setup& setup);
  ByteBackend(const ByteBackend&) = delete;
  ByteBackend& operator=(const ByteBackend&) = delete;

  static constexpr std::string_view ip = "192.0.2.100";
  static constexpr std::uint16_t port = 9000;

  // Numbers for requests without a key, each used once.
  unsigned strangers = 0;

  // Nothing goes wrong from now on.
  void heal() { healed_ = true; }

  // What a gateway does on its side of a connection.
  void gateway_sent(std::uint64_t link, const Executor& process, std::string_view bytes);
  void gateway_received(std::uint64_t link, std::string_view bytes);
  void gateway_received_end(std::uint64_t link);
  void gateway_closed(std::uint64_t link);

  // Unsafe requests without a key, by number, that have arrived as a whole: each once.
  void closes_everything();

 private:
  struct Connection {
    std::unique_ptr<Peer> peer;
    MessageReader requests{MessageReader::Of::requests};
    std::uint64_t served = 0;  // answers that were begun
    bool early = false;        // the request at hand is answered before it is whole
    bool tunnel = false;
    unsigned tunnel_of = 0;  // the caller
    // The gateway's side.
    MessageReader sent{MessageReader::Of::requests};
    MessageReader received{MessageReader::Of::responses};
    const Executor* process = nullptr;
    Time sent_at{};  // the first byte of the request at hand
    std::optional<Nonce> at_work;
    std::optional<unsigned> execution;
    bool told = false;
  };
  enum class Plan : std::uint8_t { answers, fails, dies, truncates, hangs, malformed, switches };

  Connection& connection(std::uint64_t link);
  void accept(std::unique_ptr<Peer> peer);
  void read(Connection& connection, std::string_view bytes);
  void got_head(Connection& connection, const Message& request);
  void got_request(Connection& connection, const Message& request);
  bool judge(const Message& request);
  void switch_protocols(Connection& connection, const Message& request);
  void serve(Connection& connection, const Message& request);
  Plan draw_plan();
  std::string body_for(const Message& request, const std::optional<Asked>& asked, unsigned number);
  std::string shaped(const Message& request, int status, const std::string& body, bool& closes);
  void answer(Connection& connection, std::string text, Plan plan, bool closes);
  void sent_head(Connection& connection, const Message& request);
  void received_head(Connection& connection, const Message& response);
  void told(Connection& connection, int status);
  void back(Connection& connection);
  bool happens(unsigned percent) { return !healed_ && world_.draw.percent(percent); }

  Network& network_;
  World& world_;
  History& history_;
  const Setup& setup_;
  bool healed_ = false;
  std::map<std::uint64_t, Connection> connections_;
  std::map<std::string, unsigned> arrived_;  // unsafe requests without a key, by target
  unsigned passed_ = 0;
};

}  // namespace once::sim
