// The backend as a server on the simulated network. It reads and checks requests with its own parser, does the work,
// and answers in every valid and invalid form. It also observes what gateways send and receive on each connection,
// because the model must know when a request was sent and when its answer arrived.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/byte_setup.hpp"
#include "sim/history.hpp"
#include "sim/message_reader.hpp"
#include "sim/setup.hpp"
#include "sim/stream_book.hpp"
#include "sim/wires.hpp"

namespace once::sim {

class ByteBackend {
 public:
  ByteBackend(Network& network, History& history, const Setup& setup);
  ByteBackend(const ByteBackend&) = delete;
  ByteBackend& operator=(const ByteBackend&) = delete;

  // The address of one of its servers.
  static std::string ip(unsigned server);
  static constexpr std::uint16_t port = 9000;
  // timeouts.stream_idle of routes without keys.
  static constexpr Duration pass_idle = std::chrono::seconds(10);

  // The number of requests without a key so far. Each gets its own number.
  unsigned strangers = 0;
  // The callers whose tunnels it has reset.
  std::set<unsigned> reset_tunnels;

  // Ends all faults.
  void heal() { healed_ = true; }
  StreamBook& streams() { return streams_; }

  // Observes the gateway's side of a connection.
  void gateway_sent(std::uint64_t link, const Executor& process, std::string_view bytes);
  enum class Received : std::uint8_t {
    nothing_new,
    before_request,  // a whole response, before its request was sent completely
  };
  Received gateway_received(std::uint64_t link, std::string_view bytes);
  void gateway_received_end(std::uint64_t link);
  void gateway_closed(std::uint64_t link);
  // The execution whose event stream is being sent on this connection, and is neither broken nor silent.
  std::optional<unsigned> streams_on(std::uint64_t link) const;

  // Closes the backend's side of all connections.
  void closes_everything();

 private:
  struct Connection {
    std::unique_ptr<Peer> peer;
    unsigned server = 0;
    MessageReader requests{MessageReader::Of::requests};
    std::uint64_t served = 0;  // responses begun
    bool early = false;        // the current request is answered before it is complete
    bool tunnel = false;
    unsigned tunnel_of = 0;  // the caller whose tunnel it is
    // Parses what the gateway sends and receives.
    MessageReader sent{MessageReader::Of::requests};
    MessageReader received{MessageReader::Of::responses};
    const Executor* process = nullptr;
    History::Moment sent_at;  // when the first byte of the current request was sent
    std::optional<Nonce> at_work;
    unsigned caller = 0;  // the caller of the current request
    bool checks = false;  // the current request is a health check
    std::optional<unsigned> execution;
    bool response_noted = false;
    std::optional<unsigned> streaming;  // the execution whose stream is being sent
    Time piece_at{};                    // when its last piece was sent
  };
  struct Server {
    bool fit = true;  // its answer to health checks
    Time changes_at{};
  };
  // The health check results of one gateway for one server.
  struct Checked {
    std::size_t good = 0;  // in a row
    std::size_t bad = 0;
    std::optional<Time> up_since;
    std::optional<Time> down_since;
  };
  enum class Plan : std::uint8_t { answers, fails, dies, truncates, hangs, malformed, switches };
  // A response that is sent over some time, in byte_backend_streams.cpp.
  struct Streaming {
    Message::Framing framing = Message::Framing::chunked;
    std::string body;
    std::size_t at = 0;    // bytes sent
    std::size_t stop = 0;  // bytes to send before it stops
    Plan end = Plan::answers;
    bool closes = false;
    std::uint64_t serving = 0;
  };

  Connection& connection(std::uint64_t link);
  void accept(std::unique_ptr<Peer> peer, unsigned server);
  void read(Connection& connection, std::string_view bytes);
  void judge_part(const Message& request, std::size_t fresh);
  void stop_reading(Connection& connection, const Message& request);
  void got_head(Connection& connection, const Message& request);
  void got_request(Connection& connection, const Message& request);
  bool judge(const Message& request);
  void switch_protocols(Connection& connection, const Message& request);
  void serve(Connection& connection, const Message& request);
  Plan draw_plan();
  std::string body_for(const Message& request, const std::optional<Asked>& asked, unsigned number);
  std::string shaped(const Message& request, int status, const std::string& body, bool& closes);
  void stream(Connection& connection, const Message& request, const Asked& asked, unsigned number);
  StreamBook::Script stream_script(const Message& request, const Asked& asked, unsigned number);
  std::string stream_head(const Message& request, unsigned number, const Streaming& streaming);
  void stream_on(Connection& connection, const std::shared_ptr<Streaming>& streaming);
  void end_stream(Connection& connection, const Streaming& streaming);
  void answer(Connection& connection, std::string text, Plan plan, bool closes);
  void sent_head(Connection& connection, const Message& request);
  void received_head(Connection& connection, const Message& response);
  void answer_check(Connection& connection, const Message& request);
  void checked(Connection& connection, std::optional<int> status);
  void check_fit(const Connection& connection);
  void check_at_work(const Connection& connection);
  void note_response(Connection& connection, int status);
  void back(Connection& connection);
  bool happens(unsigned percent) { return !healed_ && world_.draw.percent(percent); }

  Network& network_;
  World& world_;
  History& history_;
  const Setup& setup_;
  StreamBook streams_;
  bool healed_ = false;
  std::map<std::uint64_t, Connection> connections_;
  std::map<std::string, unsigned> arrived_;  // unsafe requests without a key, by target
  unsigned passed_ = 0;
  std::vector<Server> servers_;
  std::map<std::pair<const Executor*, unsigned>, Checked> checked_;
};

}  // namespace once::sim
