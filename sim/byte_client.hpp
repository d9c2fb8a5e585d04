// Clients of one gateway on the simulated network. They send requests in every form: whole or in pieces, sequential or
// pipelined, with a length or chunked. They stall, disconnect, read slowly or not at all, and some send malformed
// requests. Responses are checked by a separate parser, both where the gateway writes them and where clients read them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "sim/byte_setup.hpp"
#include "sim/history.hpp"
#include "sim/message_reader.hpp"
#include "sim/setup.hpp"
#include "sim/stream_book.hpp"
#include "sim/wires.hpp"

namespace once::sim {

class ByteClients {
 public:
  struct Parts {
    Network& network;
    History& history;
    const Setup& setup;
    StreamBook& streams;
    http::Endpoint gateway;
    std::uint8_t number;                      // of the gateway: each gateway's clients have their own addresses
    unsigned& strangers;                      // their number so far, at all gateways
    const std::set<unsigned>& reset_tunnels;  // callers whose tunnels their backend has reset
  };
  explicit ByteClients(const Parts& parts) : parts_(parts) {}
  ByteClients(const ByteClients&) = delete;
  ByteClients& operator=(const ByteClients&) = delete;

  // Whether a response was complete before its connection ended.
  enum class Received : std::uint8_t { whole, part };
  // The kind of a keyed request.
  enum class Form : std::uint8_t {
    request,
    lookup,
  };
  using Answered = std::function<void(const Message&, Received, Form)>;
  // Calls back with the response, if there is one. A part of a response counts only if the client waited for it.
  void ask(const Asked& asked, Answered answered);
  // Stops the stream of the key with this id.
  void stop(const Asked& asked, const OperationId& id);
  // A client without a key: with a normal or malformed request, an upgrade, or silent.
  void stranger();
  // A valid request without a key.
  void passer_by();
  // A request without a key whose path some backends read as one that requires a key.
  void evader();

  // Ends all unusual behaviour.
  void heal();
  void leave();
  // The process was killed: a response that ends with its connection may be cut off and look complete.
  void gateway_died() { gateway_died_ = true; }

  // Observes the gateways' side of a connection.
  void gateway_sent(std::uint64_t link, std::string_view bytes);
  void gateway_closed(std::uint64_t link);
  // Bytes of recorded responses that the gateway must be holding now, because their clients have only read a part.
  std::size_t held_for_readers() const;
  // Whether a client has been reading the stream of this execution since then.
  bool reads_since(unsigned execution, Time since) const;

 private:
  struct Waiting {
    unsigned caller = 0;
    Answered answered;
    Form form = Form::request;
    std::optional<Asked> asked;                // set for a keyed request
    std::optional<std::size_t> leaves_at;      // disconnects after this many bytes of the body
    std::optional<std::size_t> stops_reading;  // pauses reading after this many bytes
  };
  struct Stop {
    OperationId id;
    Time asked_at;
  };
  // A response that the gateway has not sent yet.
  struct Owed {
    unsigned caller = 0;
    Resume resume;
    std::optional<Stop> stop;
  };
  struct Connection {
    std::uint64_t link = 0;
    std::unique_ptr<Peer> peer;
    MessageReader seen{MessageReader::Of::responses};  // what the client received
    MessageReader sent{MessageReader::Of::responses};  // what the gateway sent
    std::deque<Waiting> waiting;
    std::deque<Owed> owed;
    std::size_t checked = 0;  // bytes of the current body
    Time head_at{};           // when the gateway sent the current head
    bool sent_over = false;
    bool writing = false;  // a request is partly sent
    bool last = false;     // no more requests follow
    bool over = false;
    bool ends_cleanly = false;
  };
  // How a request is sent.
  struct Manner {
    bool splits = false;
    bool stalls = false;
    std::optional<std::size_t> leaves_at;
    bool leaves_after = false;
    bool half_closes = false;
    bool reads_slowly = false;
    bool waits_for_continue = false;
  };

  Connection* pick(bool may_share);
  Connection* open();
  void ended(Connection& connection);
  void wrong(const Connection& connection, const std::string& what);
  void check(Connection& connection, const Message& response, unsigned caller, bool whole);
  void check_tunnel_end(const Connection& connection);
  void answered(Connection& connection, const Message& response);
  void reads_part(Connection& connection);
  void report_part(Connection& connection);
  void stop_answered(const Stop& stop, const Message& response);
  void look_at_sent(Connection& connection, const Message& response);
  Manner draw_manner();
  std::string framed(std::string head, std::string_view body, bool old, bool& continues);
  void expect(Connection& connection, std::string_view method, unsigned caller, Answered answered);
  void expect(Connection& connection, std::string_view method, Waiting waiting, const Resume& resume);
  void read_as_drawn(Waiting& waiting);
  void write(Connection& connection, const std::string& text, const Manner& manner);
  void write_from(Connection& connection, const std::string& text, std::size_t at, const Manner& manner);
  void after_writing(Connection& connection, const Manner& manner);
  void pass(Connection& connection, unsigned caller);
  void shadow(Connection& connection);
  void upgrade(Connection& connection, unsigned caller, bool with_body);
  void malformed(Connection& connection, unsigned caller);
  void drop(Connection& connection, bool resets);
  bool happens(unsigned percent) { return !healed_ && parts_.network.world().draw.percent(percent); }
  World& world() { return parts_.network.world(); }

  Parts parts_;
  bool healed_ = false;
  bool gateway_died_ = false;
  std::list<Connection> connections_;  // includes ended ones, because events may refer to them
  std::map<std::uint64_t, Connection*> by_link_;
};

}  // namespace once::sim
