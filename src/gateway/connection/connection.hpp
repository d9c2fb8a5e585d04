// One client's connection: the loop that takes request after request, and decides after each whether the connection is
// kept. Reading is RequestReader's, replying ReplyWriter's; a request is answered by KeyedHandler or UnkeyedHandler.
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
  bool close_if_idle() override;
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
  // Of a client that speaks HTTP where TLS is expected.
  Task<void> refuse_plain_http();
  bool may_take_another() const;
  // True: the first bytes of a request are here.
  Task<bool> wait_for_request();
  Task<void> answer(RequestContext& request);
  // False: this is not a preflight that Once answers.
  Task<bool> answered_preflight(RequestContext& request);
  // The request is over: it is counted and logged, and what it held is given back.
  After end(RequestContext& request);
  void log_access(const RequestContext& request, std::chrono::nanoseconds spent);
  Task<void> linger();
  // Gives the memory of an idle connection back.
  void release_memory();

  Worker& worker_;
  AddressTable::Share address_;
  ClientIo io_;
  ReplyWriter writer_;
  RequestReader reader_;
  KeyedHandler keyed_;
  UnkeyedHandler unkeyed_;
  RequestScratch scratch_;
  bool fresh_ = true;  // no byte of a request has come
  bool idle_ = false;
};

}  // namespace once::gateway
