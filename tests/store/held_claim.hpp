// Claims that something between gateway and server holds back until their owner has long given them up, and delivers
// then: nobody would own what they claim. The same for every store behind a server.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>

#include "base/random.hpp"
#include "store/server/settings.hpp"
#include "tests/store/server_under_test.hpp"
#include "tests/unit/support/layers.hpp"
#include "tests/unit/support/loopback.hpp"

namespace once::contract {

// Passes on what clients and a server on this machine say. What clients send can be held back, for longer than they
// are there.
class HoldingRelay {
 public:
  explicit HoldingRelay(std::uint16_t server) : server_(server), acceptor_([this] { accept_all(); }) {}
  ~HoldingRelay() {
    listener_.close();
    acceptor_.join();
    passing_.clear();
  }
  HoldingRelay(const HoldingRelay&) = delete;
  HoldingRelay& operator=(const HoldingRelay&) = delete;

  std::uint16_t port() const { return listener_.port(); }

  // From the first bytes with this text in them, nothing that any client sends reaches the server.
  void hold_from(std::string text) {
    const std::scoped_lock lock(mutex_);
    mark_ = std::move(text);
  }
  // New connections pass. What was held back stays so.
  void let_pass() {
    const std::scoped_lock lock(mutex_);
    mark_.clear();
    holds_ = false;
  }
  // Gives the server what was held back, when the clients that sent it are gone, and waits until it has answered.
  std::size_t deliver() {
    std::unique_lock lock(mutex_);
    gone_.wait(lock, [this] { return holding_ == 0; });
    for (const Held& each : held_) {
      EXPECT_EQ(::send(each.server.get(), each.bytes.data(), each.bytes.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(each.bytes.size()));
      ::shutdown(each.server.get(), SHUT_WR);
      std::array<char, 4096> answer{};
      while (::recv(each.server.get(), answer.data(), answer.size(), 0) > 0) {
      }
    }
    return std::exchange(held_, {}).size();
  }

 private:
  struct Held {
    Descriptor server;
    std::string bytes;
  };

  void accept_all() {
    while (true) {
      Descriptor client = listener_.accept();
      if (!client.open()) return;
      passing_.emplace_back([this, client = std::move(client)](const std::stop_token& stop) { pass(client, stop); });
    }
  }

  void pass(const Descriptor& client, const std::stop_token& stop) {
    Descriptor server = connect_to_loopback(server_);
    if (!server.open()) return;
    std::string held;
    std::array<char, 65'536> buffer{};
    while (!stop.stop_requested()) {
      std::array<pollfd, 2> both = {pollfd{client.get(), POLLIN, 0}, pollfd{server.get(), POLLIN, 0}};
      if (::poll(both.data(), both.size(), 20) < 0) break;
      if (both[1].revents != 0) {
        const ssize_t got = ::recv(server.get(), buffer.data(), buffer.size(), 0);
        if (got <= 0) break;
        ::send(client.get(), buffer.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL);
      }
      if (both[0].revents == 0) continue;
      const ssize_t asked = ::recv(client.get(), buffer.data(), buffer.size(), 0);
      if (asked <= 0) break;
      const std::string_view bytes(buffer.data(), static_cast<std::size_t>(asked));
      if (!held.empty() || is_held(bytes)) {
        held += bytes;
      } else if (::send(server.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) != asked) {
        break;
      }
    }
    if (held.empty()) return;
    const std::scoped_lock lock(mutex_);
    held_.push_back({.server = std::move(server), .bytes = std::move(held)});
    --holding_;
    gone_.notify_all();
  }

  bool is_held(std::string_view bytes) {
    const std::scoped_lock lock(mutex_);
    holds_ = holds_ || (!mark_.empty() && bytes.contains(mark_));
    if (holds_) ++holding_;
    return holds_;
  }

  const std::uint16_t server_;
  const LoopbackListener listener_;
  std::mutex mutex_;
  std::condition_variable gone_;
  std::string mark_;
  bool holds_ = false;
  std::size_t holding_ = 0;  // connections whose clients are there
  std::vector<Held> held_;
  std::vector<std::jthread> passing_;
  std::jthread acceptor_;
};

// Of one store.
struct HeldClaims {
  std::uint16_t server;
  std::string claims;  // what the bytes that make a claim have in them
  std::function<std::unique_ptr<Store>(std::uint16_t port, const ServerSettings&)> open;
};

class HeldClaim {
 public:
  explicit HeldClaim(const HeldClaims& how) : how_(how), relay_(how.server) {
    ServerSettings settings;
    settings.timeout = std::chrono::milliseconds(300);
    settings.connect_timeout = settings.timeout;
    settings.connections = 1;
    store_ = how.open(relay_.port(), settings);
    random_.fill(id_.bytes);
  }

  // The first one of all, which nobody took back.
  void arrives_where_nothing_is() {
    hold_back(random_.nonce());
    deliver();
    EXPECT_FALSE(run(Verb::lookup, Nonce()).record.has_value());
    EXPECT_EQ(run(Verb::claim, random_.nonce()).verdict, Verdict::execute);
  }

  // Its owner asked again, executed and ended it; and so did the next one.
  void arrives_after_a_later_one() {
    const Nonce nonce = random_.nonce();
    hold_back(nonce);
    for (const Nonce& owner : {nonce, random_.nonce()}) {
      ASSERT_EQ(run(Verb::claim, owner).verdict, Verdict::execute);
      ASSERT_EQ(run(Verb::finish, owner).status, OpStatus::done);
    }
    deliver();
    const Op found = run(Verb::lookup, Nonce());
    ASSERT_TRUE(found.record.has_value());
    EXPECT_EQ(found.record->state, State::failed);
    EXPECT_EQ(found.record->attempt, Attempt{2});
    EXPECT_EQ(run(Verb::claim, random_.nonce()).verdict, Verdict::execute);
  }

 private:
  void hold_back(const Nonce& nonce) {
    run(Verb::lookup, Nonce());  // there is a connection
    relay_.hold_from(how_.claims);
    Op claim = op_of(Verb::claim, nonce);
    Op* const batch = &claim;
    store_->execute({&batch, 1});
    EXPECT_EQ(claim.status, OpStatus::failed);
    relay_.let_pass();
  }

  void deliver() {
    run(Verb::lookup, Nonce());  // the store is there again
    advance_server_clock(std::chrono::seconds(20));
    EXPECT_GT(relay_.deliver(), 0U);
  }

  Op op_of(Verb verb, const Nonce& nonce) const {
    return {.verb = verb,
            .id = id_,
            .nonce = nonce,
            .fingerprint = {{1}},
            .terms = {.on_unknown = OnUnknown::retry, .lease = std::chrono::minutes(5), .ttl = std::chrono::hours(1)},
            .final_state = State::failed};
  }

  // Until the store answers: it has little time, and the machine may be busy.
  Op run(Verb verb, const Nonce& nonce) {
    const auto until = monotonic_now() + std::chrono::minutes(1);
    while (true) {
      Op op = op_of(verb, nonce);
      Op* const batch = &op;
      store_->execute({&batch, 1});
      if (op.status != OpStatus::failed || monotonic_now() > until) {
        EXPECT_NE(op.status, OpStatus::failed) << op.error;
        return op;
      }
      std::this_thread::yield();
    }
  }

  const HeldClaims how_;
  HoldingRelay relay_;
  std::unique_ptr<Store> store_;
  SystemRandom random_;
  OperationId id_{};
};

}  // namespace once::contract
