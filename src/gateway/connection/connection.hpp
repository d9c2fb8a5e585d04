// One client connection: a loop over requests that decides after each whether to keep the connection. RequestReader
// reads, ReplyWriter replies, KeyedHandler or UnkeyedHandler answers.
#pragma once

#include <chrono>
#include <cstddef>

#include "base/task.hpp"
#include "gateway/connection/client_io.hpp"
#include "gateway/connection/keyed_handler.hpp"
#include "gateway/connection/reply_writer.hpp"
#include "gateway/connection/request_context.hpp"
#include "gateway/connection/request_reader.hpp"
#include "gateway/connection/unkeyed_handler.hpp"
#include "gateway/worker.hpp"

namespace once::gateway {

class Connection final : private ServedConnection, private RoomMaker, private ClientPlace {
 public:
  Connection(Worker& worker, const http::Socket::Accepted& accepted, Over over, AddressTable::Share address);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  // Serves until the connection ends.
  Task<void> run();

 private:
  Closed close_if_idle() override;
  void refuse_unread() override { reader_.refuse_unread(); }
  std::chrono::nanoseconds debt() const override { return io_.debt(); }
  void displace() override { io_.displace(); }
  std::size_t neighbours() const override { return address_.count(); }
  bool is_from(const http::PeerNetwork& network) const override { return address_.network() == network; }
  bool holds(Scarce what) const override;
  void client_closed() override;
  void hang_up() override;
  std::size_t clients_left() const override { return address_.left(); }
  void make_room() override { worker_.displace_slow(neighbours(), Scarce::body_memory); }
  void make_own_room() override { worker_.displace_slow(neighbours(), Scarce::body_memory, &address_.network()); }
  void make_spool_room() override { worker_.displace_slow(neighbours(), Scarce::spool); }

  Task<After> shake_hands();
  // Answers a client that speaks plain HTTP on the TLS port.
  Task<void> refuse_plain_http();
  bool may_take_another() const;
  // ok: the first bytes of a request have arrived.
  Task<http::Io> wait_for_request();
  Task<void> answer(RequestContext& request);
  // Answers the request if it is a preflight for Once to answer.
  Task<Answered> answer_preflight_of(RequestContext& request);
  // Counts and logs the finished request and frees what it held.
  After end(RequestContext& request);
  void log_access(const RequestContext& request, std::chrono::nanoseconds spent);
  Task<void> linger();
  // Releases the memory of an idle connection.
  void release_memory();

  Worker& worker_;
  AddressTable::Share address_;
  ClientIo io_;
  ReplyWriter writer_;
  RequestReader reader_;
  KeyedHandler keyed_;
  UnkeyedHandler unkeyed_;
  RequestScratch scratch_;
  bool fresh_ = true;  // no byte of a request has arrived yet
  bool idle_ = false;
};

}  // namespace once::gateway
