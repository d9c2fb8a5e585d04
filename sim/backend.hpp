// The backend of one gateway. It executes requests or fails to, and answers or does not, independently of the gateway.
// Each execution is recorded in the history. With a database, it works in a transaction and commits its outcome with
// it.
#pragma once

#include <coroutine>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/exchange/backend.hpp"
#include "sim/history.hpp"
#include "sim/setup.hpp"
#include "sim/sql_server.hpp"
#include "sim/world.hpp"

namespace once::sim {

class SimBackend final : public Backend {
 public:
  // `database` is null for a backend that leaves recording to the gateway.
  SimBackend(World& world, History& history, const Setup& setup, ProcessExecutor& home, SqlServer* database)
      : world_(world), history_(history), setup_(setup), home_(home), database_(database) {}

  Task<BackendAnswer> send(const BackendRequest& request) override;

  void cut_off();
  // Ends all faults.
  void heal() { healed_ = true; }

 private:
  enum class Plan : std::uint8_t { answers, refuses, fails, dies_before, dies_after, truncates, hangs };
  class Sending;

  // A request as the backend received it.
  struct Request {
    std::uint64_t number = 0;
    Asked asked;
    OperationId id{};
    Nonce nonce{};
    std::uint64_t fence = 0;
    unsigned execution = 0;
  };
  // The response, if one is sent.
  struct Response {
    Delivery delivery = Delivery::lost;
    int status = 0;
    std::string_view mark = {};  // appended to its body
  };

  // The steps of a transaction.
  enum class Step : std::uint8_t { begin, finish, commit, answer };
  struct Job {
    Request request;
    Plan plan = Plan::answers;
    std::optional<Step> stalls_before;
    std::optional<Step> dies_before;
    std::optional<Step> answered_before;  // set if a proxy in between gave up and answered itself
    SqlServer::Transaction transaction{};
  };

  Plan draw_plan();
  void begin(Sending& sending);
  void arrive(Request request, Plan plan);
  void end(const Request& request, const Response& response);

  void work(const Request& request, Plan plan);
  void go_on(const std::shared_ptr<Job>& job, Step step);
  void take(const std::shared_ptr<Job>& job, Step step);
  void answer(const Job& job);
  void fail(const Request& request);

  World& world_;
  History& history_;
  const Setup& setup_;
  ProcessExecutor& home_;
  SqlServer* const database_;
  std::map<std::uint64_t, Sending*> sending_;
  std::uint64_t sent_ = 0;
  bool cut_off_ = false;
  bool healed_ = false;
};

}  // namespace once::sim
