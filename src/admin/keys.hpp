// /v1/keys: lists keys in the store and lets operators change one key or many; docs/operate/keys.md is the user's
// description. Runs on the admin's event loop. Scans and the audit file, which block, run on separate threads. Actions
// are ordinary store operations with the nonce of the record that the operator saw, so of two concurrent changes one
// wins and the other gets an error.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "admin/audit.hpp"
#include "admin/keys_json.hpp"
#include "admin/search_thread.hpp"
#include "base/executor.hpp"
#include "base/task.hpp"
#include "claims/identity.hpp"
#include "core/operation.hpp"
#include "core/problem.hpp"
#include "gateway/gateway.hpp"
#include "http/service.hpp"
#include "store/lane.hpp"
#include "store/waiters.hpp"

namespace once::admin {

struct KeysPorts {
  Gateway& gateway;
  Lanes& store;
  Waiters& waiters;
  const Clock& clock;
  const Log& log;
  Duration count_every;  // 0: keys are not counted
};

struct BulkKey;  // one of many keys in a request

class KeysApi {
 public:
  // `audit_log` is a file name, or empty.
  KeysApi(std::string_view secret, std::string audit_log, const KeysPorts& ports);
  KeysApi(const KeysApi&) = delete;
  KeysApi& operator=(const KeysApi&) = delete;

  // Call first: checks that the audit file can be written.
  Result<void> check() const { return audit_.check(); }

  // The caller has been authorised. `home` is the loop that this runs on.
  Task<http::ServiceResponse> handle(const http::ServiceRequest& request, Executor& home);

  // Call before the loop ends: stops all searches.
  void stop() { thread_.stop(); }

  // For the metric once_keys.
  std::optional<SearchThread::Counts> counts() const { return thread_.counts(); }

 private:
  // A key, or the problem with finding it.
  struct Seen {
    std::optional<KeyInfo> key{};
    Time now{};
    std::optional<Problem> problem{};
  };

  Task<http::ServiceResponse> list(const http::ServiceRequest& request, Executor& home);
  Task<http::ServiceResponse> show(const http::ServiceRequest& request, std::string_view id, Executor& home);
  Task<http::ServiceResponse> find(const http::ServiceRequest& request, Executor& home);
  Task<http::ServiceResponse> act(const http::ServiceRequest& request, std::string_view id, Action action,
                                  Executor& home);
  Task<http::ServiceResponse> act_on(const KeyInfo& key, Action action, const ActionRequest& asked, AuditEntry& entry,
                                     Executor& home);
  // Responses that stream or stay in chunks (keys_stream.cpp).
  Task<http::ServiceResponse> body(const http::ServiceRequest& request, std::string_view id, Executor& home);
  Task<Result<std::string>> stream_member(const KeyInfo& key, Executor& home);
  Task<std::optional<Problem>> find_stream(const KeyInfo& key, ActionRequest& asked, Executor& home);
  // Many keys in one request (keys_bulk.cpp).
  Task<http::ServiceResponse> act_on_many(const http::ServiceRequest& request, Action action, Executor& home);
  Task<std::optional<Problem>> look_at(std::vector<BulkKey>& keys, Executor& home);
  Task<void> change(std::vector<BulkKey>& keys, Action action, const ActionRequest& asked, Executor& home);
  Task<Result<void>> audit_all(const std::vector<BulkKey>& keys, Executor& home);

  Task<Result<KeyPage>> search(std::function<Result<KeyPage>()> ask, Executor& home);
  Task<Seen> look(std::string_view text, Executor& home);
  Task<Seen> look_up(const OperationId& id, Executor& home);
  Task<Result<void>> audit(const AuditEntry& entry, Executor& home);

  KeysPorts ports_;
  OperationIds ids_;
  Identities identities_;
  Audit audit_;
  Search* search_;
  SearchThread thread_;
};

}  // namespace once::admin
