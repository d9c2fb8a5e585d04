// Detects a client's disconnect while its request waits for another one.
#pragma once

#include "http/socket.hpp"
#include "store/owner_wait.hpp"

namespace once::gateway {

// A client that closes its sending side is assumed to have left: most have, and the reply tells the others to retry. If
// bytes of a next request are unread, the close is only seen after the wait.
class ClientPresence final : public Presence, private http::Socket::Watcher {
 public:
  explicit ClientPresence(http::Socket& socket) : socket_(socket) {}

  bool listen(Presence::Listener& listener) override {
    const auto moved = socket_.watch(*this);
    if (moved && *moved != http::Socket::Peer::bytes) return false;
    listener_ = &listener;
    return true;
  }

  void stop_listening() override {
    socket_.unwatch();
    listener_ = nullptr;
  }

  bool has_left() override {
    const auto peer = socket_.peer_now();
    return peer == http::Socket::Peer::end || peer == http::Socket::Peer::gone;
  }

 private:
  void peer_moved(http::Socket::Peer what) override {
    if (what != http::Socket::Peer::bytes && listener_ != nullptr) listener_->client_left();
  }

  http::Socket& socket_;
  Presence::Listener* listener_ = nullptr;
};

}  // namespace once::gateway
