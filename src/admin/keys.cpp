#include "admin/keys.hpp"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "admin/key_action.hpp"
#include "admin/keys_answers.hpp"

namespace once::admin {

using http::ServiceRequest;
using http::ServiceResponse;

namespace {

constexpr std::string_view base = "/v1/keys/";

std::optional<Action> action_named(std::string_view name) {
  if (name == "release") return Action::release;
  if (name == "resolve") return Action::resolve;
  if (name == "forget") return Action::forget;
  if (name == "stop") return Action::stop;
  return std::nullopt;
}

// The id as it is logged. Other texts in a URL may be a raw key and are not logged.
std::string operation_named(const std::optional<KeyInfo>& key, std::string_view text) {
  if (key) return to_hex(prefix_of(key->id));
  const auto bytes = from_hex(text);
  const bool is_id = bytes && (bytes->size() == OperationId::size || bytes->size() == IdPrefix::size);
  return is_id ? to_hex(std::string_view(*bytes).substr(0, IdPrefix::size)) : "";
}

// The message for a search without a result: usually a given value differs from what the client sent.
std::string no_such_key(const FindRequest& asked) {
  if (!asked.request) return "There is no such key. Tenant and scope are part of a key.";
  return "There is no such key. Host, path and caller are part of a key, and the method if it is in the route's "
         "scope. Give them exactly as the client sent them: a name and an address of one server are two hosts.";
}

}  // namespace

KeysApi::KeysApi(std::string_view secret, std::string audit_log, const KeysPorts& ports)
    : ports_(ports),
      ids_(secret),
      identities_(secret),
      audit_(std::move(audit_log), ports.clock, ports.log),
      search_(ports.store.store().search()),
      thread_(search_, ports.count_every, ports.log) {}

Task<ServiceResponse> KeysApi::handle(const ServiceRequest& request, Executor& home) {
  const std::string_view path = request.head.path;
  const bool reads = request.head.method == Method::get || request.head.method == Method::head;
  if (search_ == nullptr) co_return refused_key(ProblemKind::not_found, "This store cannot be searched.");
  if (path == "/v1/keys") {
    if (!reads) co_return wrong_method("GET, HEAD", "List keys with GET.");
    ServiceResponse response = co_await list(request, home);
    co_return response;
  }
  const std::string_view rest = path.substr(base.size());
  const std::size_t slash = rest.find('/');
  const std::string_view id = rest.substr(0, slash);
  if (slash == std::string_view::npos && id == "find" && !reads) {
    ServiceResponse response = co_await find(request, home);
    co_return response;
  }
  if (slash == std::string_view::npos && reads) {
    ServiceResponse response = co_await show(request, id, home);
    co_return response;
  }
  const bool of_many = slash == std::string_view::npos;
  if (!of_many && reads && rest.substr(slash + 1) == "body") {
    ServiceResponse response = co_await body(request, id, home);
    co_return response;
  }
  const auto action = action_named(of_many ? id : rest.substr(slash + 1));
  if (!action) co_return refused_key(ProblemKind::not_found, "The actions are release, resolve, forget and stop.");
  if (of_many && *action == Action::stop) {
    co_return refused_key(ProblemKind::not_found, "Streams are stopped one at a time: POST /v1/keys/ID/stop.");
  }
  if (reads) co_return wrong_method("POST", "Use POST.");
  if (of_many) {
    ServiceResponse response = co_await act_on_many(request, *action, home);
    co_return response;
  }
  ServiceResponse response = co_await act(request, id, *action, home);
  co_return response;
}

Task<ServiceResponse> KeysApi::list(const ServiceRequest& request, Executor& home) {
  auto asked = read_list(query_of(request.head), ports_.clock.now());
  if (!asked) co_return refused_key(ProblemKind::parameter_invalid, asked.error());
  if (asked->filter.started_before || asked->filter.started_after) {
    // Compute ages with the store's clock, which also dates the claims.
    Op clock{.verb = Verb::lookup};
    co_await ports_.store.run(clock, home);
    if (clock.status == OpStatus::failed) co_return refused_key(ProblemKind::store_unavailable, clock.error);
    asked = read_list(query_of(request.head), clock.now);
  }
  if (!choose_part(*asked)) co_return key_answer(store_problem(bad_cursor().error()));
  const auto scan = [&] { return search_->scan(asked->filter, asked->cursor, asked->limit); };
  Result<KeyPage> page = co_await search(scan, home);
  if (!page) co_return key_answer(store_problem(page.error()));
  fit_page(*page, *asked);
  co_return key_answer(page_json(*page));
}

Task<Result<KeyPage>> KeysApi::search(std::function<Result<KeyPage>()> ask, Executor& home) {
  Result<KeyPage> page;
  const auto job = [&] { page = ask(); };
  const bool done = co_await thread_.run(job, home) == SearchThread::Ran::yes;
  if (done) co_return page;
  co_return std::unexpected(Error{.source = ErrorSource::system,
                                  .retryable = Retryable::yes,
                                  .detail = "Too many searches are waiting, or the gateway is stopping. Retry later."});
}

Task<KeysApi::Seen> KeysApi::look_up(const OperationId& id, Executor& home) {
  const auto get = [&] { return search_->get(id); };
  Result<KeyPage> page = co_await search(get, home);
  if (!page) co_return Seen{.problem = store_problem(page.error())};
  if (page->keys.empty()) co_return Seen{.problem = problem(ProblemKind::not_found, "There is no such key.")};
  co_return Seen{.key = std::move(page->keys.front()), .now = page->now};
}

Task<KeysApi::Seen> KeysApi::look(std::string_view text, Executor& home) {
  const auto bytes = from_hex(text);
  const std::size_t size = bytes ? bytes->size() : 0;
  if (size == OperationId::size) {
    OperationId id;
    std::memcpy(id.bytes.data(), bytes->data(), size);
    Seen seen = co_await look_up(id, home);
    co_return seen;
  }
  if (size != IdPrefix::size) {
    co_return Seen{.problem =
                       problem(ProblemKind::parameter_invalid, "An id is 64 hex digits, or the first 16 of them.")};
  }
  IdPrefix prefix;
  std::memcpy(prefix.bytes.data(), bytes->data(), size);
  const auto find = [&] { return search_->find(prefix); };
  Result<KeyPage> page = co_await search(find, home);
  if (!page) co_return Seen{.problem = store_problem(page.error())};
  if (page->keys.empty()) co_return Seen{.problem = problem(ProblemKind::not_found, "There is no such key.")};
  if (page->keys.size() > 1) {
    Problem several =
        problem(ProblemKind::parameter_invalid, "Several keys begin with these digits: use all 64 digits.");
    several.status = 409;
    co_return Seen{.problem = std::move(several)};
  }
  co_return Seen{.key = std::move(page->keys.front()), .now = page->now};
}

Task<ServiceResponse> KeysApi::show(const ServiceRequest& request, std::string_view id, Executor& home) {
  const Seen seen = co_await look(id, home);
  if (seen.problem) co_return key_answer(*seen.problem);
  const Result<std::string> stream = co_await stream_member(*seen.key, home);
  if (!stream) co_return key_answer(store_problem(stream.error()));
  if (!wants_body(query_of(request.head))) co_return key_answer(key_json(*seen.key, seen.now, *stream) + "\n");
  Op lookup{.verb = Verb::lookup, .id = seen.key->id};
  co_await ports_.store.run(lookup, home);
  if (lookup.status == OpStatus::failed) co_return refused_key(ProblemKind::store_unavailable, lookup.error);
  const OutcomeBytes outcome = lookup.record ? lookup.record->outcome : nullptr;
  co_return key_answer(key_json(*seen.key, seen.now, *stream, outcome) + "\n");
}

Task<ServiceResponse> KeysApi::find(const ServiceRequest& request, Executor& home) {
  const auto asked = read_find(request.body);
  if (!asked) co_return refused_key(ProblemKind::parameter_invalid, asked.error());
  OperationId id;
  if (asked->request) {
    const auto generation = ports_.gateway.generation();
    const auto made = operation_of(generation->settings, generation->routes, ids_, *asked->request, ports_.clock);
    if (!made) co_return refused_key(ProblemKind::parameter_invalid, made.error());
    id = *made;
  } else {
    id = identities_.operation(asked->tenant, asked->scope, KeyKind::given, asked->key);
  }
  Seen seen = co_await look_up(id, home);
  if (seen.problem && seen.problem->kind == ProblemKind::not_found) seen.problem->detail = no_such_key(*asked);
  if (seen.problem) co_return key_answer(*seen.problem);
  co_return key_answer(key_json(*seen.key, seen.now) + "\n");
}

Task<Result<void>> KeysApi::audit(const AuditEntry& entry, Executor& home) {
  Result<void> written = co_await audit_.write(entry, home);
  co_return written;
}

Task<ServiceResponse> KeysApi::act(const ServiceRequest& request, std::string_view id, Action action, Executor& home) {
  auto asked = read_action(action, request.body);
  if (!asked) co_return refused_key(ProblemKind::parameter_invalid, asked.error());
  const Seen seen = co_await look(id, home);
  AuditEntry entry{.action = std::string(name_of(action)),
                   .operation = operation_named(seen.key, id),
                   .by = asked->by,
                   .reason = asked->reason,
                   .result = "refused",
                   .from = seen.key ? std::string(admin::name_of(seen.key->state)) : "none",
                   .to = "",
                   .peer = std::string(request.peer)};
  std::optional<Problem> problem = seen.problem;
  if (!problem) problem = obstacle(*seen.key, action, *asked, seen.now);
  if (!problem && action == Action::stop) problem = co_await find_stream(*seen.key, *asked, home);
  if (problem) {
    entry.to = entry.from;
    audit_.log(entry);
    const auto written = co_await audit(entry, home);
    if (!written) ports_.log.error("audit log not written", {{"error", written.error().detail}});
    co_return key_answer(*problem);
  }
  ServiceResponse response = co_await act_on(*seen.key, action, *asked, entry, home);
  audit_.log(entry);
  co_return response;
}

Task<ServiceResponse> KeysApi::act_on(const KeyInfo& key, Action action, const ActionRequest& asked, AuditEntry& entry,
                                      Executor& home) {
  entry.to = state_after(action, asked);
  entry.result = "begun";
  const auto begun = co_await audit(entry, home);
  if (!begun) {
    entry.result = "refused";
    entry.to = entry.from;
    ports_.log.error("audit log not written", {{"error", begun.error().detail}});
    co_return refused_key(ProblemKind::store_unavailable, "Nothing was changed: " + begun.error().detail + ".");
  }
  Op op = op_of(key, action, asked);
  const Effect effect = co_await carry_out(op, key, ports_.store, ports_.waiters, home);
  entry.result = result_of(effect, op.status);
  if (effect == Effect::none) entry.to = entry.from;
  const auto ended = co_await audit(entry, home);
  if (!ended) ports_.log.error("audit log not written", {{"error", ended.error().detail}});
  if (effect != Effect::done) co_return key_answer(problem_of(effect, op));
  if (action == Action::stop) ports_.gateway.stop_stream(key.id);
  const std::string done = fmt::format("\"done\":\"{}\"", done_name(action));
  const Seen after = co_await look_up(key.id, home);
  // A deleted key is reported as such; if it cannot be read, its state is omitted.
  const bool gone = !after.key && after.problem->kind == ProblemKind::not_found;
  const std::string_view state = gone ? ",\"state\":null" : "";
  if (!after.key) co_return key_answer(fmt::format("{{{},\"id\":\"{}\"{}}}\n", done, to_hex(key.id), state));
  co_return key_answer(key_json(*after.key, after.now, done + ",") + "\n");
}

}  // namespace once::admin
