// The settings that each route may set.
#include "base/assert.hpp"
#include "config/settings.hpp"
#include "core/dialect.hpp"
#include "core/outcome.hpp"

namespace once::config {

namespace {

using namespace std::chrono_literals;

constexpr Duration day = 24h;

Parsed<void> apply_dialect(Policy& policy, const Values& values) {
  const std::string& name = values.at(0);
  const std::optional<Policy> chosen = dialect(name);
  const std::vector<std::string_view> names(dialect_names().begin(), dialect_names().end());
  if (!chosen) return std::unexpected(not_expected(or_list(names), name).error() + suggestion(name, names));
  for (const Setting<Policy>* setting : dialect_settings()) {
    const Parsed<void> done = setting->set(policy, setting->get(*chosen));
    ONCE_ASSERT(done.has_value());
  }
  policy.wording = chosen->wording;
  policy.key.max_length = chosen->key.max_length;
  policy.dialect = name;
  return {};
}

Setting<Policy> dialect_setting() {
  const std::vector<std::string_view> names(dialect_names().begin(), dialect_names().end());
  return {
      .name = "dialect",
      .shape = Shape::one,
      .expected = or_list(names),
      .range = "",
      .help =
          "The conventions of an API family: key header, methods, scope, wording, and what a retry may do. The "
          "settings in its table can still be changed.",
      .set = apply_dialect,
      .get = [](const Policy& policy) { return Values{policy.dialect}; },
      .syntax = words_syntax(names),
  };
}

template <class Field>
Setting<Policy> methods_setting(std::string_view name, Field field, std::string_view help) {
  return {
      .name = name,
      .shape = Shape::list,
      .expected = "a list, each " + method_codec().expected,
      .range = "",
      .help = help,
      .set = [field](Policy& policy, const Values& values) -> Parsed<void> {
        if (const auto checked = check_list(values); !checked) return checked;
        const auto set = parse_methods(values);
        if (!set) return std::unexpected(set.error());
        field(policy) = *set;
        return {};
      },
      .get = [field](const Policy& policy) { return format_methods(field(policy)); },
      .syntax = method_codec().syntax,
  };
}

template <class Field>
Setting<Policy> statuses_setting(std::string_view name, Field field, std::string_view help) {
  return {
      .name = name,
      .shape = Shape::list,
      .expected = "a list, each a status such as 404 or a class such as 2xx",
      .range = "200 to 599",
      .help = help,
      .set = [field](Policy& policy, const Values& values) -> Parsed<void> {
        if (const auto checked = check_list(values); !checked) return checked;
        const auto set = parse_statuses(values);
        if (!set) return std::unexpected(set.error());
        field(policy) = *set;
        return {};
      },
      .get = [field](const Policy& policy) { return format_statuses(field(policy)); },
      .syntax = {.pattern = syntax::status_or_class(), .numbers = Syntax::Numbers{200, 599}, .any_scalar = false},
  };
}

Setting<Policy> scope_setting() {
  Setting<Policy> setting = list<Policy>(
      "scope", [](auto& p) -> auto& { return p.scope; },
      choice_codec<ScopePart>({{"caller", ScopePart::caller},
                               {"method", ScopePart::method},
                               {"path", ScopePart::path},
                               {"life", ScopePart::life}}),
      "",
      "What a key belongs to, in addition to the host. The same key with another caller, method or path (as listed "
      "here) is another operation. With life, next to path, keys end when a DELETE of the resource is answered with "
      "2xx.");
  setting.set = [inner = setting.set](Policy& policy, const Values& values) -> Parsed<void> {
    if (values.empty()) return std::unexpected("expected at least one of caller, method and path");
    return inner(policy, values);
  };
  setting.items.least = 1;
  return setting;
}

Setting<Policy> caller_missing_setting() {
  Setting<Policy> setting = one<Policy>(
      "caller_missing", [](auto& p) -> auto& { return p.caller_missing; },
      choice_codec<CallerMissing>({{"anonymous", CallerMissing::anonymous}, {"reject", CallerMissing::reject}}),
      "What happens to a keyed request without a caller: all such requests are one caller, or it is refused (401). "
      "An invalid token is always refused. Must be set with environment: production.");
  setting.set = [inner = setting.set](Policy& policy, const Values& values) -> Parsed<void> {
    policy.caller_missing_chosen = true;
    return inner(policy, values);
  };
  return setting;
}

Settings<Policy> key_settings() {
  return {
      dialect_setting(),
      one<Policy>(
          "mode", [](auto& p) -> auto& { return p.mode; },
          choice_codec<Mode>({{"enforce", Mode::enforce}, {"shadow", Mode::shadow}}),
          "enforce protects. shadow forwards every request unchanged, keeps records on the side and reports what "
          "enforce would have done."),
      one<Policy>(
          "key.header", [](auto& p) -> auto& { return p.key.header; }, header_name_codec(),
          "The request header that carries the key."),
      one<Policy>(
          "key.required", [](auto& p) -> auto& { return p.key.required; },
          choice_codec<Required>({{"yes", Required::yes}, {"no", Required::no}}),
          "Whether a request without a key is refused (400) or passed through unprotected."),
      list<Policy>(
          "key.derive", [](auto& p) -> auto& { return p.key.derive; }, key_source_codec(), "none",
          "The parts of a request that make up the key if the client sends none: headers and members of a JSON body. "
          "Two requests with the same parts are one operation. A request without a key that lacks one of the parts "
          "gets 400."),
      methods_setting(
          "key.methods", [](auto& p) -> auto& { return p.methods; },
          "Methods on which a key has an effect. Requests with another method pass through; if they have a key, the "
          "response has Idempotency-Status: bypassed."),
      list<Policy>(
          "caller", [](auto& p) -> auto& { return p.caller; }, caller_codec(), "none",
          "The owner of a key; several sources form a tuple. The caller is hashed into the operation id, never "
          "stored. With none, callers share their keys and can get each other's responses."),
      caller_missing_setting(),
      scope_setting(),
      list<Policy>(
          "scope_headers", [](auto& p) -> auto& { return p.scope_headers; }, header_name_codec(), "",
          "Headers that name the account on whose behalf a caller acts. With another value, or without it, the same "
          "key is another operation. Four at most."),
  };
}

Settings<Policy> execution_settings() {
  using Body = FingerprintPolicy::Body;
  return {
      one<Policy>(
          "fingerprint.body", [](auto& p) -> auto& { return p.fingerprint.body; },
          choice_codec<Body>({{"auto", Body::automatic},
                              {"raw", Body::raw},
                              {"json", Body::json},
                              {"form", Body::form},
                              {"multipart", Body::multipart},
                              {"none", Body::none}}),
          "How bodies are compared. auto: multipart bodies part by part, because the boundary is new on every "
          "attempt; other bodies byte by byte. json, form: as auto, but JSON by value, or form fields by decoded "
          "names and values. raw: always byte by byte. none: not at all."),
      list<Policy>(
          "fingerprint.include", [](auto& p) -> auto& { return p.fingerprint.include; }, json_pointer_codec(), "",
          "JSON fields to compare. Empty: all. Needs fingerprint.body: json."),
      list<Policy>(
          "fingerprint.exclude", [](auto& p) -> auto& { return p.fingerprint.exclude; }, json_pointer_codec(), "",
          "JSON fields to ignore, such as a timestamp of the client. Needs fingerprint.body: json."),
      one<Policy>(
          "ttl", [](auto& p) -> auto& { return p.ttl; }, duration_codec({1s, 365 * day}),
          "How long a response is kept for retries. A key whose request is in progress, or whose outcome is unknown, "
          "is "
          "kept for at least twice timeouts.connect and timeouts.response, and timeouts.stream_idle, together."),
      one<Policy>(
          "tombstone", [](auto& p) -> auto& { return p.tombstone; }, duration_codec({0s, 365 * day}),
          "How long a key is remembered after its ttl. A retry in that time gets 410 and is not executed again. 0s: "
          "an expired key can be used again."),
      one<Policy>(
          "lease", [](auto& p) -> auto& { return p.lease; }, duration_codec({1s, 1h}),
          "How long a claim stays valid without a renewal. It is renewed while the request runs, so it need not "
          "cover a slow backend. It determines how soon others notice that a gateway died."),
      one<Policy>(
          "on_unknown", [](auto& p) -> auto& { return p.on_unknown; },
          choice_codec<OnUnknown>(
              {{"retry", OnUnknown::retry}, {"takeover", OnUnknown::takeover}, {"hold", OnUnknown::hold}}),
          "What a retry does if it is unknown whether the first request took effect: execute at once, execute after "
          "takeover_after, or nothing until an operator has resolved the key."),
      one<Policy>(
          "takeover_after", [](auto& p) -> auto& { return p.takeover_after; }, duration_codec({1s, 7 * day}),
          "With on_unknown: takeover, how long after its start an unknown request may be executed again."),
      one<Policy>(
          "in_flight", [](auto& p) -> auto& { return p.in_flight; },
          choice_codec<InFlight>({{"reject", InFlight::reject}, {"wait", InFlight::wait}}),
          "What a retry gets while the first request is still running: its response when it arrives, or 409 at once. "
          "Few client libraries retry a 409."),
      one<Policy>(
          "in_flight_wait", [](auto& p) -> auto& { return p.wait_limit; }, duration_codec({1ms, 10min}),
          "With in_flight: wait, how long to wait before the 409. If the client disconnects meanwhile, its retry "
          "ends."),
  };
}

Settings<Policy> record_settings() {
  return {
      statuses_setting(
          "record.statuses", [](auto& p) -> auto& { return p.record.statuses; },
          "Responses that are recorded and replayed. After any other (except record.refusals) a retry executes again."),
      statuses_setting(
          "record.refusals", [](auto& p) -> auto& { return p.record.refusals; },
          "Responses that mean nothing was done: the key is free again. Takes precedence over record.statuses."),
      one<Policy>(
          "record.gateway_errors", [](auto& p) -> auto& { return p.record.gateway_errors; },
          choice_codec<GatewayErrors>({{"failed", GatewayErrors::failed}, {"unknown", GatewayErrors::unknown}}),
          "The meaning of a 502, 503 or 504 from the backend. Use unknown if it comes from a proxy that may have "
          "forwarded the request."),
      one<Policy>(
          "record.unframed", [](auto& p) -> auto& { return p.record.unframed; },
          choice_codec<Unframed>(
              {{"whole", Unframed::whole}, {"keep", Unframed::keep}, {"unknown", Unframed::unknown}}),
          "What happens to a response with neither Content-Length nor chunks. whole: recorded if it is provably "
          "complete, otherwise the outcome is unknown. keep: recorded. unknown: the outcome is unknown. The client "
          "gets the response in every case. See responses without a length."),
      one<Policy>(
          "record.max_body", [](auto& p) -> auto& { return p.record.max_body; }, size_codec({0, one_gib}),
          "Larger responses stream to the client and are recorded without their body once they are complete. A retry "
          "gets 409 response-not-kept. Responses over 1 MiB are recorded as they arrive, so a large limit takes space "
          "in the store but no memory."),
      one<Policy>(
          "record.stream", [](auto& p) -> auto& { return p.record.stream; },
          choice_codec<StreamRecording>({{"auto", StreamRecording::automatic},
                                         {"always", StreamRecording::always},
                                         {"off", StreamRecording::off}}),
          "Which responses are recorded as they stream: auto (text/event-stream, application/x-ndjson, "
          "application/jsonl), always (every response that is recorded) or off (no type: event streams are held back "
          "like "
          "other responses). Other responses of up to 1 MiB reach the client once they are complete and recorded; "
          "larger ones are passed on as they arrive."),
      one<Policy>(
          "record.max_stream", [](auto& p) -> auto& { return p.record.max_stream; }, size_codec({0, one_gib}),
          "A longer stream continues for its readers and is recorded without its body. A retry gets 409 "
          "response-not-kept."),
      one<Policy>(
          "record.abandon_after", [](auto& p) -> auto& { return p.record.abandon_after; }, duration_codec({0ms, day}),
          "How long a stream may have no reader at this gateway before it is ended with an unknown outcome: for "
          "backends that are paid by the token. 0: no limit."),
      one<Policy>(
          "record.set_cookie", [](auto& p) -> auto& { return p.record.set_cookie; },
          choice_codec<SetCookie>({{"drop", SetCookie::drop}, {"keep", SetCookie::keep}}),
          "Whether Set-Cookie is recorded and replayed. The first response always has it."),
      list<Policy>(
          "record.drop_headers", [](auto& p) -> auto& { return p.record.drop_headers; }, header_name_codec(), "",
          "Response headers that are not recorded, in addition to hop-by-hop headers, Set-Cookie and Date."),
  };
}

Settings<Policy> request_settings() {
  return {
      one<Policy>(
          "store_down", [](auto& p) -> auto& { return p.store_down; },
          choice_codec<StoreDown>({{"reject", StoreDown::reject}, {"bypass", StoreDown::bypass}}),
          "What happens to a keyed request when the store does not answer: 503, or forward it unprotected with "
          "Idempotency-Status: bypassed."),
      one<Policy>(
          "max_request_body", [](auto& p) -> auto& { return p.max_request_body; }, size_codec({one_kib, one_gib}),
          "Keyed requests, and writes that conditional.if_match covers, are held in memory up to this size. Larger "
          "ones with a key go to disk (max_large_request); others get 413. Requests without a key stream and have "
          "no limit."),
      one<Policy>(
          "max_large_request", [](auto& p) -> auto& { return p.max_large_request; }, size_codec({0, one_tib}),
          "Keyed requests larger than max_request_body are written to a file (limits.spool_directory) before they "
          "are executed, up to this size. Larger ones get 413. At least max_request_body, or 0: none."),
      one<Policy>(
          "timeouts.connect", [](auto& p) -> auto& { return p.timeouts.connect; }, duration_codec({1ms, 5min}),
          "The time to connect to the backend."),
      one<Policy>(
          "timeouts.response", [](auto& p) -> auto& { return p.timeouts.response; }, duration_codec({1ms, day}),
          "For keyed requests: from the last byte sent to the complete response, or to the head of one that streams. "
          "After it the outcome is unknown."),
      one<Policy>(
          "timeouts.stream_idle", [](auto& p) -> auto& { return p.timeouts.stream_idle; }, duration_codec({1ms, day}),
          "The longest silence of the backend in a response that streams, with or without a key."),
  };
}

Settings<Policy> conditional_settings() {
  return {
      one<Policy>(
          "conditional.etag", [](auto& p) -> auto& { return p.conditional.etag; },
          choice_codec<Etags>({{"off", Etags::off}, {"on", Etags::on}}),
          "Whether a 200 response to GET without an ETag gets one, and If-None-Match is answered with 304. Responses "
          "that "
          "are larger than 1 MiB or record.max_body, or that take longer than 2 seconds after their head, stream "
          "without."),
      one<Policy>(
          "conditional.if_match", [](auto& p) -> auto& { return p.conditional.if_match; },
          choice_codec<IfMatch>({{"off", IfMatch::off}, {"on", IfMatch::on}, {"required", IfMatch::required}}),
          "Whether If-Match and If-None-Match on PUT, PATCH and DELETE are checked against the current ETag of the "
          "resource (412), one writer at a time. required: a write without either gets 428."),
  };
}

Settings<Policy> cors_settings() {
  return {
      list<Policy>(
          "cors.origins", [](auto& p) -> auto& { return p.cors.origins; }, origin_codec(), "none",
          "Origins whose scripts may call this route and read its responses in a browser. Once answers their "
          "preflights, which a browser may cache for 10 minutes. With none, CORS is left to the backend."),
      one<Policy>(
          "cors.credentials", [](auto& p) -> auto& { return p.cors.credentials; }, yes_no_codec(),
          "Whether such requests may carry cookies. Not with the origin *."),
  };
}

}  // namespace

const Settings<Policy>& policy_settings() {
  static const Settings<Policy> table = [] {
    Settings<Policy> all = key_settings();
    for (auto* part : {execution_settings, record_settings, request_settings, conditional_settings, cors_settings}) {
      for (Setting<Policy>& setting : part()) all.push_back(std::move(setting));
    }
    return all;
  }();
  return table;
}

std::vector<const Setting<Policy>*> dialect_settings() {
  std::vector<const Setting<Policy>*> differing;
  for (const Setting<Policy>& setting : policy_settings()) {
    if (setting.name == "dialect") continue;
    std::vector<Values> seen;
    for (const std::string_view name : dialect_names()) seen.push_back(setting.get(dialect(name).value_or(Policy())));
    const bool same = std::ranges::all_of(seen, [&](const Values& values) { return values == seen.front(); });
    if (!same) differing.push_back(&setting);
  }
  return differing;
}

Policy builtin_policy() {
  std::optional<Policy> policy = dialect("ietf");
  ONCE_ASSERT(policy.has_value());
  return *policy;
}

}  // namespace once::config
