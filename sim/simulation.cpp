#include "sim/simulation.hpp"

#include <map>
#include <memory>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/sometimes.hpp"
#include "sim/byte_marks.hpp"
#include "sim/byte_process.hpp"
#include "sim/history.hpp"
#include "sim/machine.hpp"
#include "sim/network.hpp"
#include "sim/process.hpp"
#include "sim/redis_servers.hpp"
#include "sim/setup.hpp"
#include "sim/sql_server.hpp"
#include "sim/world.hpp"

namespace once::sim {

namespace {

using namespace std::chrono_literals;

constexpr Duration journal_care = 500ms;
constexpr unsigned most_asks = 25;       // requests for one operation during faults
constexpr unsigned most_last_asks = 40;  // afterwards, a second apart
// Longer than any drawn lease, response timeout, takeover_after and delayed request.
constexpr Duration quiet = 60s;

class Simulation {
 public:
  Simulation(std::uint64_t seed, KeepTrace keep_trace, std::optional<StoreKind> store, Layer layer)
      : setup_(draw_setup(seed, store, layer)), world_(seed, keep_trace == KeepTrace::yes), routes_(setup_.routes) {}

  Report run();

 private:
  struct Gateway {
    std::uint8_t number = 0;
    std::unique_ptr<SkewedClock> clock;
    std::unique_ptr<GatewayProcess> process;
  };
  struct Client {
    Asked asked;
    unsigned asks = 0;
    bool has_answer = false;
    Answer last;
  };

  bool owners_can_renew() const;
  // A Redis without persistence may lose its data.
  unsigned data_losses() const { return setup_.store == StoreKind::redis ? setup_.bytes.streams.losses : 0; }
  void make_store();
  Store& make_server();
  void start(Gateway& gateway);
  std::unique_ptr<GatewayProcess> make_process(const Gateway& gateway);
  void end(Gateway& gateway, JournalMachine::End how, Duration until_restart);
  void schedule_faults();
  void schedule_store_faults();
  void schedule_clients();
  void schedule_operators();
  void schedule_streams();
  void follow_soon(unsigned stream);
  void schedule_guards();
  void visit();
  void care();
  void ask(Client& client, const Asked& asked);
  void stop_soon(const Asked& asked);
  void answered(Client& client, const Answer& answer);
  void heal();
  void ask_at_last(Client& client);
  void wind_down();

  Gateway& any() { return gateways_[world_.draw.below(gateways_.size())]; }
  GatewayProcess* any_alive();
  // A random time during the faults.
  Duration sometime() { return world_.draw.below(setup_.length); }
  static bool is_final(const Answer& answer) {
    return answer.code.empty() && answer.status < 500 && !is_refusal(answer.status);
  }

  const Setup setup_;
  World world_;
  History history_{world_};
  std::vector<Policy> routes_;
  SkewedClock store_clock_{world_, setup_.store_ahead};
  std::unique_ptr<MemoryStore> memory_;
  std::unique_ptr<WatchedStore> watched_;
  std::unique_ptr<SqlServer> sql_;
  std::unique_ptr<RedisServers> redis_;
  std::unique_ptr<NetworkStore> network_;
  std::unique_ptr<JournalMachine> journal_;
  std::unique_ptr<Network> wires_;  // at the byte layer
  std::unique_ptr<ByteBackend> backend_;
  std::vector<Gateway> gateways_;
  std::vector<std::unique_ptr<GatewayProcess>> dead_;  // events may refer to them
  std::vector<std::unique_ptr<Client>> clients_;
  bool healed_ = false;
  std::uint64_t crashes_ = 0;
};

// Whether a running owner can always renew its lease.
bool Simulation::owners_can_renew() const {
  const bool network_holds = setup_.store_loses_request == 0 && setup_.store_loses_answer == 0 &&
                             setup_.store_acts_late == 0 && setup_.store_outages == 0 && setup_.store_refuses == 0;
  const bool server_holds = setup_.store_restarts == 0 && setup_.failovers == 0 && data_losses() == 0;
  // A backend's transaction that locks the row, or a slow replica, may prevent a renewal.
  const bool always = setup_.store != StoreKind::sql_transaction && setup_.store != StoreKind::redis_wait;
  const bool in_time = setup_.bytes.store_answers_late == 0 && setup_.gateway_pauses == 0;
  return network_holds && server_holds && always && in_time;
}

void Simulation::make_store() {
  if (owners_can_renew()) history_.leave_live_owners_alone();
  const bool steady = setup_.clock_jumps == 0 && setup_.store_restarts == 0 && !setup_.is_redis();
  if (steady && setup_.store != StoreKind::journal) history_.clocks_are_steady();
  if (setup_.layer == Layer::bytes) {
    history_.leave_out(shadow_route);
    wires_ = std::make_unique<Network>(world_, setup_.bytes.weather);
    backend_ = std::make_unique<ByteBackend>(*wires_, history_, setup_);
  }
  for (unsigned i = 0; i < setup_.gateways; ++i) {
    const Duration ahead = world_.draw.below(2 * setup_.clock_skew + 1ms) - setup_.clock_skew;
    gateways_.push_back(
        {.number = static_cast<std::uint8_t>(i), .clock = std::make_unique<SkewedClock>(world_, ahead)});
  }
  if (setup_.store == StoreKind::journal) {
    history_.set_store_clock(*gateways_[0].clock);
    journal_ = std::make_unique<JournalMachine>(world_, history_, *gateways_[0].clock, setup_.journal);
    return;
  }
  history_.set_store_clock(store_clock_);
  network_ = std::make_unique<NetworkStore>(make_server(), world_, setup_);
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): the analyzer loses track of what the network store owns

Store& Simulation::make_server() {
  if (setup_.is_sql()) {
    sql_ = std::make_unique<SqlServer>(world_, history_, store_clock_);
    if (setup_.store == StoreKind::sql_transaction) history_.backends_commit();
    return *sql_;
  }
  if (setup_.is_redis()) {
    redis_ = std::make_unique<RedisServers>(world_, history_, store_clock_, setup_);
    if (setup_.store == StoreKind::redis_wait) {
      history_.replicas_are_waited_for();
    } else {
      history_.replicas_lag(setup_.replica_lag);
    }
    return *redis_;
  }
  memory_ = std::make_unique<MemoryStore>(
      store_clock_, MemoryLimits{.max_bytes = setup_.store_bytes, .shards = 1, .shared = Shared::yes});
  history_.store_evicts(setup_.store_bytes);
  watched_ = std::make_unique<WatchedStore>(*memory_, history_);
  return *watched_;
}

void Simulation::start(Gateway& gateway) {
  if (gateway.process) return;
  if (journal_ && !journal_->is_open() && !journal_->open()) return;
  if (setup_.policies_change) {
    for (Policy& policy : routes_) policy = draw_policy(world_.draw);
  }
  gateway.process = make_process(gateway);
  if (healed_) gateway.process->heal();
  world_.note("gateway: starts");
}

std::unique_ptr<GatewayProcess> Simulation::make_process(const Gateway& gateway) {
  Store& store = journal_ ? static_cast<Store&>(*journal_) : static_cast<Store&>(*network_);
  if (setup_.layer == Layer::bytes) {
    return std::make_unique<ByteProcess>(ByteProcess::Parts{.world = world_,
                                                            .history = history_,
                                                            .setup = setup_,
                                                            .store = store,
                                                            .network_to_store = network_.get(),
                                                            .clock = *gateway.clock,
                                                            .routes = routes_,
                                                            .network = *wires_,
                                                            .backend = *backend_,
                                                            .number = gateway.number},
                                         world_.draw.next());
  }
  return std::make_unique<Process>(
      Process::Parts{.world = world_,
                     .history = history_,
                     .setup = setup_,
                     .store = store,
                     .network = network_.get(),
                     .database = setup_.store == StoreKind::sql_transaction ? sql_.get() : nullptr,
                     .clock = *gateway.clock,
                     .routes = routes_},
      world_.draw.next());
}

void Simulation::end(Gateway& gateway, JournalMachine::End how, Duration until_restart) {
  if (!gateway.process) return;
  world_.note(how == JournalMachine::End::killed ? "gateway: killed" : "gateway: the power is gone");
  ++crashes_;
  history_.stop_counting();
  gateway.process->die();
  dead_.push_back(std::move(gateway.process));
  if (journal_) journal_->close(how);
  world_.after(until_restart, [this, &gateway] { start(gateway); });
}

GatewayProcess* Simulation::any_alive() {
  Gateway& gateway = any();
  return gateway.process.get();
}

void Simulation::schedule_faults() {
  Draw& draw = world_.draw;
  for (unsigned i = 0; i < setup_.gateway_crashes; ++i) {
    const auto how = draw.percent(setup_.power_losses) ? JournalMachine::End::power_lost : JournalMachine::End::killed;
    const bool in_a_call = journal_ && draw.one_in(2);
    world_.after(sometime(), [this, how, in_a_call] {
      if (in_a_call && journal_->is_open()) return journal_->stop_soon();
      end(any(), how, world_.draw.between(10ms, 5s));
    });
  }
  for (unsigned i = 0; i < setup_.gateway_pauses; ++i) {
    world_.after(sometime(), [this] {
      if (GatewayProcess* process = any_alive()) {
        world_.note("gateway: paused");
        process->pause(world_.draw.between(100ms, 15s));
      }
    });
  }
  for (unsigned i = 0; i < setup_.clock_jumps; ++i) {
    world_.after(sometime(), [this] {
      const Duration by = world_.draw.between(1ms, 90s);
      SkewedClock& clock = *any().clock;
      const Duration jump = world_.draw.one_in(2) ? by : -by;
      world_.note(fmt::format("clock: jumps by {} ms", jump.count()));
      clock.jump(jump);
    });
  }
  schedule_store_faults();
}

void Simulation::schedule_store_faults() {
  for (unsigned i = 0; i < setup_.store_outages; ++i) {
    world_.after(sometime(), [this] {
      world_.note("store: down");
      network_->set_down(true);
      world_.after(world_.draw.between(100ms, 12s), [this] { network_->set_down(false); });
    });
  }
  for (unsigned i = 0; i < setup_.store_restarts; ++i) {
    world_.after(sometime(), [this] {
      world_.note("database: restarts");
      sql_->go_down();
      network_->set_down(true);
      store_clock_.jump(world_.draw.below(Duration(4s)) - 2s);
      world_.after(world_.draw.between(100ms, 5s), [this] {
        sql_->come_up();
        network_->set_down(false);
      });
    });
  }
  for (unsigned i = 0; i < setup_.failovers; ++i) {
    world_.after(sometime(), [this] { redis_->fail_over(); });
  }
  for (unsigned i = 0; i < data_losses(); ++i) {
    world_.after(sometime(), [this] { redis_->lose_data(); });
  }
  for (unsigned i = 0; i < setup_.disk_faults; ++i) {
    world_.after(sometime(), [this] { journal_->fail_soon(); });
  }
}

// Does a journal's maintenance, and restarts a gateway whose disk has failed, as an administrator would.
void Simulation::care() {
  journal_->maintain();
  if (journal_->stopped() || journal_->failed()) {
    const bool lost = world_.draw.percent(setup_.power_losses);
    end(gateways_[0], lost ? JournalMachine::End::power_lost : JournalMachine::End::killed,
        world_.draw.between(10ms, 5s));
  }
  world_.after(journal_care, [this] { care(); });
}

void Simulation::schedule_clients() {
  for (unsigned operation = 0; operation < setup_.operations; ++operation) {
    for (unsigned caller = 0; caller < setup_.callers; ++caller) {
      clients_.push_back(std::make_unique<Client>());
      Client& client = *clients_.back();
      client.asked = {.operation = operation, .caller = caller};
      world_.after(sometime() / 2, [this, &client] { ask(client, client.asked); });
    }
  }
}

void Simulation::schedule_operators() {
  for (unsigned i = 0; i < setup_.operators; ++i) {
    world_.after(sometime(), [this] { visit(); });
  }
}

// Schedules several owners and readers of each stream, at any gateway.
void Simulation::schedule_streams() {
  for (unsigned stream = 0; stream < setup_.streams; ++stream) {
    for (std::uint64_t owners = world_.draw.between(2, 6); owners > 0; --owners) {
      world_.after(sometime(), [this, stream] {
        if (GatewayProcess* process = any_alive()) process->streams()->own(stream);
        follow_soon(stream);
      });
    }
    for (std::uint64_t readers = world_.draw.between(2, 8); readers > 0; --readers) {
      world_.after(sometime(), [this, stream] { follow_soon(stream); });
    }
  }
}

void Simulation::follow_soon(unsigned stream) {
  world_.after(world_.draw.below(Duration(2s)), [this, stream] {
    if (GatewayProcess* process = any_alive()) process->streams()->follow(stream);
  });
}

// Schedules several calls for each work of the library, at any gateway.
void Simulation::schedule_guards() {
  for (unsigned work = 0; work < setup_.guards; ++work) {
    for (std::uint64_t calls = world_.draw.between(3, 10); calls > 0; --calls) {
      world_.after(sometime(), [this, work] {
        if (GatewayProcess* process = any_alive()) process->guards()->call(work);
      });
    }
  }
}

// An operator lists the keys, waits, and changes one. Others may choose the same key.
void Simulation::visit() {
  Draw& draw = world_.draw;
  GatewayProcess* process = any_alive();
  if (process == nullptr) return;
  const std::vector<KeyInfo> keys = process->operators().list();
  if (keys.empty()) return;
  const auto any_key = [&] { return keys[draw.below(keys.size())]; };
  KeyInfo key = any_key();
  // Prefers a key that is stuck.
  for (unsigned tries = 0; tries < 3 && key.state != State::unknown && key.state != State::started; ++tries) {
    key = any_key();
  }
  for (unsigned operators = draw.one_in(3) ? 2 : 1; operators > 0; --operators) {
    world_.after(draw.between(0ms, 8s), [this, key] {
      GatewayProcess* at = any_alive();
      if (healed_ || at == nullptr) return;
      at->operators().act(key, draw_action(world_.draw));
    });
  }
}

void Simulation::ask(Client& client, const Asked& asked) {
  if (healed_ || client.asks >= most_asks) return;
  ++client.asks;
  Draw& draw = world_.draw;
  const auto again = [this, &client](Duration after, const Asked& what) {
    world_.after(after, [this, &client, what] { ask(client, what); });
  };
  if (draw.percent(setup_.client_sends_other)) {
    Asked other = client.asked;
    other.content = static_cast<unsigned>(draw.between(1, 2));
    again(draw.between(0ms, 2s), other);
  }
  if (draw.percent(setup_.client_sends_twice)) again(draw.between(0ms, 100ms), asked);
  if (draw.percent(setup_.client_gives_up)) again(draw.between(10ms, 4s), asked);
  // Ask again soon, so that other readers attach to the stream.
  if (setup_.bytes.streams.any() && draw.percent(40)) again(draw.between(20ms, 5s), asked);
  if (setup_.bytes.streams.stops > 0 && draw.percent(setup_.bytes.streams.stops)) stop_soon(asked);
  GatewayProcess* process = any_alive();
  if (process == nullptr) return again(draw.between(50ms, 2s), asked);
  process->ask(asked, [this, &client](const Answer& answer) { answered(client, answer); });
  // A process that dies sends no answer: the client retries by itself.
  again(draw.between(3s, 30s), asked);
}

// Stops the stream, at any gateway and often more than once.
void Simulation::stop_soon(const Asked& asked) {
  world_.after(world_.draw.between(10ms, 8s), [this, asked] {
    GatewayProcess* process = any_alive();
    if (healed_ || process == nullptr) return;
    process->stop(asked);
    if (world_.draw.one_in(3)) stop_soon(asked);
  });
}

void Simulation::answered(Client& client, const Answer& answer) {
  if (answer.asked != client.asked) return;
  client.last = answer;
  client.has_answer = true;
  if (healed_) return;
  // A client that has the answer may ask again.
  if (is_final(answer) && !world_.draw.one_in(2)) return;
  world_.after(world_.draw.between(20ms, 5s), [this, &client] { ask(client, client.asked); });
}

void Simulation::heal() {
  world_.note("all faults have ended");
  healed_ = true;
  if (wires_) {
    wires_->weather() = {.delay = 5ms};
    backend_->heal();
  }
  if (network_) {
    network_->set_down(false);
    network_->heal();
  }
  if (redis_) redis_->heal();
  store_clock_.set_right();
  if (journal_) {
    // The disk has space from now on, and no faults.
    journal_->give_room();
    end(gateways_[0], JournalMachine::End::killed, 10ms);
  }
  for (Gateway& gateway : gateways_) {
    gateway.clock->set_right();
    if (gateway.process) gateway.process->heal();
  }
}

void Simulation::ask_at_last(Client& client) {
  if ((client.has_answer && (is_final(client.last) || client.last.code == "key-mismatch" ||
                             client.last.code == "response-not-kept" || client.last.code == "key-expired")) ||
      client.asks >= most_last_asks) {
    return;
  }
  ++client.asks;
  if (GatewayProcess* process = any_alive()) {
    process->ask(client.asked, [this, &client](const Answer& answer) { answered(client, answer); });
  }
  world_.after(1s, [this, &client] { ask_at_last(client); });
}

void Simulation::wind_down() {
  for (Gateway& gateway : gateways_) {
    if (gateway.process) gateway.process->wind_down();
  }
  if (setup_.layer == Layer::bytes) {
    backend_->closes_everything();
    world_.run_until(world_.now() + 2 * quiet);
    history_.check_quotas();
  }
  for (Gateway& gateway : gateways_) {
    if (gateway.process) gateway.process->has_wound_down();
    if (gateway.process) gateway.process->die();
  }
}

Report Simulation::run() {
  Branches::count();
  make_store();
  for (Gateway& gateway : gateways_) start(gateway);
  history_.count_stored([this](const TenantTag& caller) {
    std::size_t counted = 0;
    for (const Gateway& gateway : gateways_) counted += gateway.process ? gateway.process->counted_for(caller) : 0;
    return counted;
  });
  schedule_faults();
  schedule_clients();
  schedule_operators();
  schedule_streams();
  schedule_guards();
  if (journal_) care();
  world_.run_until(World::beginning + setup_.length);
  heal();
  world_.run_until(world_.now() + quiet);
  Duration apart{};
  for (const auto& client : clients_) {
    client->asks = 0;
    client->has_answer = false;
    // The byte layer limits requests in progress, so ask one after the other.
    apart += setup_.layer == Layer::bytes ? 50ms : 0ms;
    if (apart > 0ms) {
      world_.after(apart, [this, &client] { ask_at_last(*client); });
    } else {
      ask_at_last(*client);
    }
  }
  world_.run_until(world_.now() + most_last_asks * Duration(1s) + quiet);
  for (const auto& client : clients_) {
    if (!client->has_answer) history_.violated(fmt::format("operation {} is not answered", client->asked.operation));
    if (backend_ && client->last.code == "cut-off") backend_->streams().check_final(client->asked);
    history_.check_final_answer(client->last, routes_[client->asked.operation % routes_.size()].on_unknown);
  }
  history_.check_claims_released();
  wind_down();
  return {.violations = history_.violations(),
          .trace = world_.trace.lines(),
          .trace_hash = world_.trace.hash(),
          .executions = history_.executions(),
          .replays = history_.replays(),
          .crashes = crashes_,
          .chunks = history_.chunks_read(),
          .by_hand = history_.operations_by_hand(),
          .parts = backend_ ? backend_->streams().parts() : 0,
          .resumed = backend_ ? backend_->streams().resumed() : 0,
          .cut_off = backend_ ? backend_->streams().cut_off() : 0,
          .stopped = history_.stops(),
          .stopped_replays = backend_ ? backend_->streams().stopped_replays() : 0};
}

}  // namespace

Report simulate(std::uint64_t seed, KeepTrace keep_trace, std::optional<StoreKind> store, Layer layer) {
  return Simulation(seed, keep_trace, store, layer).run();
}

}  // namespace once::sim
