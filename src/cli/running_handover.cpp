// How a running process hands over to its successor (handover.hpp), and takes everything back if that fails.
#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/running.hpp"
#include "store/exclusive.hpp"

namespace once::cli {

namespace {

bool is_shared(const OpenedStore& store) {
  return store.store().traits().shared == Shared::yes;
}

}  // namespace

void Running::start_successor() {
  if (renewal_.command.empty() || successor_ || drains_at_) {
    const std::string_view why = drains_at_   ? "this process is shutting down"
                                 : successor_ ? "a successor is starting"
                                              : "this process cannot be replaced";
    log_.warn("SIGUSR2 ignored", {{"why", why}});
    return;
  }
  std::vector<http::InheritedSocket> sockets;
  for (const int fd : gateway_->listening()) sockets.push_back({.name = "http", .fd = fd});
  for (const int fd : gateway_->tls_listening()) sockets.push_back({.name = "tls", .fd = fd});
  if (claims_) sockets.push_back({.name = "claims", .fd = claims_->listening()});
  if (admin_) sockets.push_back({.name = "admin", .fd = admin_->listening()});
  auto started = Successor::start(renewal_.command, sockets, renewal_.origin.kept);
  if (!started) {
    log_.error("successor not started", {{"error", started.error().detail}});
    return;
  }
  successor_ = std::move(*started);
  begin(Handover::starting);
  log_.info("successor started", {{"pid", successor_->pid()}});
}

void Running::begin(Handover step) {
  handover_ = step;
  step_began_ = monotonic_now();
}

Running::Ended Running::on_successor() {
  switch (successor_->receive()) {
    case Message::checked:
      if (is_shared(*store_)) {
        successor_->send_yours();
        begin(Handover::starting);
        return Ended::no;
      }
      // Name the successor as the main process now: if this process is killed from here on, the successor serves.
      notify(fmt::format("MAINPID={}", successor_->pid()));
      pause();
      return Ended::no;
    case Message::ready:
      if (!successor_->runs()) break;
      notify(fmt::format("MAINPID={}", successor_->pid()));
      drain(true);
      return Ended::yes;
    case Message::yours:
    case Message::none: break;
  }
  return take_back("it ended before it was ready");
}

Running::Ended Running::go_on_handing_over() {
  if (!successor_) return Ended::no;
  // If the store has failed for good, do not wait for the requests that need it.
  const bool useless = store_->store().failed_for_good();
  if (handover_ == Handover::emptying && (useless || !gateway_->needs_store())) {
    close_claims();
    if (!claims_ || claims_->ended()) give_up_store();
  }
  // Accept a message that arrived just before the time limit.
  const bool in_time = monotonic_now() < step_began_ + config_.timeouts.handover;
  if (in_time || successor_->speaks()) return Ended::no;
  return take_back(handover_ == Handover::emptying
                       ? "running requests needed the store for longer than a handover may take: half of "
                         "timeouts.drain, at least 30 seconds"
                       : "it took longer than a handover may take: half of timeouts.drain, at least 30 seconds");
}

// A client that keeps its connection busy sends its next request within the grace period, and the response announces
// the close. Closing the idle connection at once could collide with that request.
void Running::pause() {
  begin(Handover::emptying);
  // A slow request body must not use up the time in which the store must become free.
  gateway_->pause({.idle_grace = idle_grace, .unread_grace = config_.timeouts.handover / 4});
  gateway_->wait_for_turns();
  log_.info("handing over", {{"limit_ms", config_.timeouts.handover.count()}});
}

// Called once no request needs the store. Until then leases continue, and their owners can renew them here.
void Running::close_claims() {
  if (!claims_ || claims_socket_.open()) return;
  claims_socket_ = Descriptor(::fcntl(claims_->listening(), F_DUPFD_CLOEXEC, 0));
  if (!claims_socket_.open()) return;  // out of descriptors: retried until the handover times out
  claims_->hand_over();
  claims_->begin_stop();
}

void Running::end_claims() {
  if (!claims_) return;
  claims_->stop();
  watchdog_.forget(claims_->loop());
  claims_.reset();
}

// Streams that need no store continue, and so does the admin interface.
void Running::give_up_store() {
  end_claims();
  reopens_at_.reset();
  Exclusive* const exclusive = store_->store().exclusive();
  if (exclusive != nullptr && !exclusive->closed()) {
    const auto held = exclusive->give_up();
    gateway_->wait_for_turns();
    if (admin_) http::wait_for_turn(admin_->loop());
  }
  log_.info("store closed for the successor");
  begin(Handover::given);
  successor_->send_yours();
}

Running::Ended Running::take_back(std::string_view why) {
  successor_->end();
  successor_.reset();
  const Handover step = std::exchange(handover_, Handover::none);
  Exclusive* const exclusive = store_->store().exclusive();
  if (step == Handover::given && exclusive != nullptr) {
    if (const auto opened = exclusive->open(config_.timeouts.handover); !opened) lose_store(opened.error());
  }
  if (step != Handover::starting) serve_again();
  log_.error("successor failed; this process keeps serving", {{"why", why}});
  return Ended::no;
}

// For example the disk is full or has failed. Requests that need no store are still served, and keys are refused, as
// after any failure of the disk.
void Running::lose_store(const Error& error) {
  log_.error("the store cannot be reopened; retrying", {{"error", error.detail}});
  reopening_pauses_.reset();
  reopens_at_ = monotonic_now() + reopening_pauses_.next();
}

void Running::reopen_store() {
  if (!reopens_at_ || monotonic_now() < *reopens_at_) return;
  if (store_->store().exclusive()->open(Duration::zero())) {
    reopens_at_.reset();
    log_.info("the store is open again");
    return;
  }
  reopens_at_ = monotonic_now() + reopening_pauses_.next();
}

void Running::serve_again() {
  notify(fmt::format("MAINPID={}", ::getpid()));
  gateway_->resume();
  if (!claims_socket_.open()) return;
  end_claims();
  if (const auto started = start_claims({claims_socket_.release()}); !started) {
    claims_.reset();
    log_.error("the claims API cannot be started again", {{"error", started.error().detail}});
  }
}

}  // namespace once::cli
