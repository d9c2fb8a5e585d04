#include "admin/keys_json.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <iterator>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "admin/audit.hpp"
#include "base/base64.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "core/fields.hpp"
#include "core/headers.hpp"
#include "core/json_text.hpp"
#include "core/outcome.hpp"
#include "core/reason.hpp"
#include "core/route_label.hpp"

namespace once::admin {

namespace {

constexpr std::array<std::string_view, state_count> state_names = {"started", "succeeded", "failed", "unknown",
                                                                   "tombstone"};
constexpr std::size_t most_keys = 1000;
// Prefixes of the store's own cursor, in a list of unsettled keys.
constexpr std::string_view lapsed_part = "lapsed.";
constexpr std::string_view unknown_part = "unknown.";

void append_text(std::string& out, std::string_view name, const std::optional<std::string>& value) {
  fmt::format_to(std::back_inserter(out), ",\"{}\":", name);
  if (value) {
    append_json_string(out, *value);
  } else {
    out.append("null");
  }
}

void append_labels(std::string& out, const std::optional<std::string>& label) {
  const auto details = label ? details_in(*label) : std::nullopt;
  append_text(out, "route", label ? std::optional(std::string(route_in(*label))) : std::nullopt);
  append_text(out, "method", details ? std::optional(details->method) : std::nullopt);
  append_text(out, "path", details ? std::optional(details->path) : std::nullopt);
  append_text(out, "request_id", details ? std::optional(details->request_id) : std::nullopt);
}

void append_time(std::string& out, std::string_view name, std::optional<Time> time) {
  const bool never = !time || *time == Time::max() || *time == Time::min();
  append_text(out, name, never ? std::nullopt : std::optional(rfc3339(*time)));
}

// Where the body of a recorded response is stored.
std::string_view body_place(const KeyInfo& key) {
  if (key.state != State::succeeded) return "null";
  switch (key.body_kept) {
    case BodyKept::yes: return R"("in_record")";
    case BodyKept::no: return R"("not_kept")";
    case BodyKept::in_chunks: return R"("in_chunks")";
  }
  return "null";
}

void append_outcome(std::string& out, const OutcomeBytes& outcome) {
  const auto response = outcome == nullptr ? std::nullopt : decode(*outcome);
  if (!response) {
    out.append(",\"outcome\":null");
    return;
  }
  fmt::format_to(std::back_inserter(out), ",\"outcome\":{{\"status\":{},\"headers\":[", response->status);
  bool first = true;
  for (const std::string_view line : split(response->headers, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    out.append(std::exchange(first, false) ? "[" : ",[");
    append_json_string(out, line.substr(0, colon));
    out.push_back(',');
    append_json_string(out, trim(line.substr(colon + 1)));
    out.push_back(']');
  }
  out.push_back(']');
  if (!response->in_chunks) append_body(out, response->body);
  out.push_back('}');
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i] == '+' ? ' ' : text[i]);
      continue;
    }
    const auto byte = from_hex(text.substr(i + 1, 2));
    if (!byte || byte->size() != 1) return std::nullopt;
    out.append(*byte);
    i += 2;
  }
  return out;
}

using Wrong = std::unexpected<std::string>;

Among among_named(std::string_view name) {
  if (name == "lapsed") return Among::lapsed;
  return name == "unsettled" ? Among::unsettled : Among::all;
}

// Parses one parameter of a list. Returns what was expected; empty: it is valid.
std::string set_parameter(ListRequest& list, std::string_view name, const std::string& value, Time now) {
  KeyFilter& filter = list.filter;
  if (name == "caller") {
    filter.tenant = value;
  } else if (name == "route") {
    filter.route = value;
  } else if (name == "cursor") {
    list.cursor = value;
  } else if (name == "state") {
    filter.state = state_named(value);
    list.among = among_named(value);
    if (!filter.state && list.among == Among::all) {
      return fmt::format("one of {}, lapsed, unsettled", fmt::join(state_names, ", "));
    }
  } else if (name == "limit") {
    list.limit = parse_number(value).value_or(0);
    if (list.limit < 1 || list.limit > most_keys) return fmt::format("a number from 1 to {}", most_keys);
  } else if (name == "older_than" || name == "newer_than") {
    const auto age = parse_duration(value);
    if (!age) return "a duration such as 5m";
    (name == "older_than" ? filter.started_before : filter.started_after) = now - *age;
  } else if (name == "before" || name == "after") {
    const auto time = parse_time(value);
    if (!time) return "a time such as 2026-11-15T04:03:14Z";
    (name == "before" ? filter.started_before : filter.started_after) = *time;
  } else {
    return "one of the parameters state, caller, route, older_than, newer_than, before, after, limit and cursor";
  }
  return "";
}

std::expected<std::string, std::string> text_member(const JsonTree& object, std::string_view name) {
  const JsonTree* member = object.find(name);
  if (member == nullptr || member->is_null()) return "";
  if (member->string() == nullptr) return Wrong(fmt::format("\"{}\" must be a string.", name));
  return *member->string();
}

// Names and values, in order.
std::expected<std::vector<std::pair<std::string, std::string>>, std::string> headers_in(const JsonTree& object) {
  std::vector<std::pair<std::string, std::string>> headers;
  const JsonTree* list = object.find("headers");
  if (list == nullptr || list->is_null()) return headers;
  const Wrong wrong(R"("headers" must be an array of pairs: [["Name", "value"]].)");
  if (list->array() == nullptr) return wrong;
  for (const JsonTree& pair : *list->array()) {
    if (pair.array() == nullptr || pair.array()->size() != 2) return wrong;
    const std::string* name = (*pair.array())[0].string();
    const std::string* value = (*pair.array())[1].string();
    if (name == nullptr || value == nullptr) return wrong;
    headers.emplace_back(*name, *value);
  }
  return headers;
}

// Whether a header is left out of the record, as for a backend's response. CORS fields are set anew on each reply.
bool is_left_out(std::string_view name) {
  static constexpr std::string_view cors = "access-control-";
  static const RecordPolicy policy;
  return !is_stored(name, policy) || iequals(name.substr(0, cors.size()), cors);
}

bool has_no_body(std::uint64_t status) {
  return status == 204 || status == 205 || status == 304;
}

bool same_bytes(const OutcomeBytes& a, const OutcomeBytes& b) {
  return a == nullptr || b == nullptr ? a == b : *a == *b;
}

std::expected<std::string, std::string> body_in(const JsonTree& response) {
  const JsonTree* encoded = response.find("body_base64");
  if (encoded == nullptr || encoded->is_null()) return text_member(response, "body");
  if (response.find("body") != nullptr) return Wrong("A response needs body or body_base64, not both.");
  auto decoded = encoded->string() == nullptr ? std::nullopt : from_base64(*encoded->string());
  if (!decoded) return Wrong("\"body_base64\" is not valid base64.");
  return *std::move(decoded);
}

std::expected<OutcomeBytes, std::string> outcome_in(const JsonTree& response) {
  const JsonTree* number = response.find("status");
  const auto status =
      number == nullptr || number->number() == nullptr ? std::nullopt : parse_number(number->number()->text);
  if (!status || *status < 200 || *status > 599) return Wrong("\"response\" needs a status from 200 to 599.");
  const auto headers = headers_in(response);
  if (!headers) return Wrong(headers.error());
  std::string lines;
  for (const auto& [name, value] : *headers) {
    if (!is_token(name) || !is_field_value(value)) return Wrong("A header of the response is not valid HTTP.");
    if (!is_left_out(name)) lines.append(name).append(": ").append(value).append("\r\n");
  }
  const auto body = body_in(response);
  if (!body) return Wrong(body.error());
  if (has_no_body(*status) && !body->empty()) return Wrong(fmt::format("A response of {} has no body.", *status));
  const int code = static_cast<int>(*status);
  const StoredResponse stored{.status = code, .reason = reason_phrase(code), .headers = lines, .body = *body};
  return std::make_shared<const std::string>(encode(stored));
}

// The requested change, independent of the key.
std::expected<ActionRequest, std::string> terms_in(const JsonTree& tree, Action action) {
  ActionRequest request;
  for (const auto& [name, to] :
       {std::pair("version", &request.version), {"by", &request.by}, {"reason", &request.reason}}) {
    auto text = text_member(tree, name);
    if (!text) return Wrong(text.error());
    *to = *std::move(text);
  }
  if (action != Action::resolve) return request;
  const auto state = text_member(tree, "state");
  if (!state || (*state != "succeeded" && *state != "failed")) {
    return Wrong("\"state\" must be succeeded or failed.");
  }
  request.state = *state == "failed" ? State::failed : State::succeeded;
  const JsonTree* response = tree.find("response");
  if (response == nullptr || response->is_null()) return request;
  if (request.state == State::failed) return Wrong("A failed key has no response: a retry executes again.");
  auto outcome = outcome_in(*response);
  if (!outcome) return Wrong(outcome.error());
  request.outcome = *std::move(outcome);
  return request;
}

// Parses `count` digits at `at`, and moves past them.
std::optional<int> digits_at(std::string_view text, std::size_t& at, std::size_t count) {
  const auto number = at + count <= text.size() ? parse_number(text.substr(at, count)) : std::nullopt;
  at += count;
  return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

bool skips(std::string_view text, std::size_t& at, char expected) {
  if (at >= text.size() || text[at] != expected) return false;
  ++at;
  return true;
}

// Parses "Z" or "+02:00"; nothing may follow.
std::optional<std::chrono::minutes> offset_at(std::string_view text, std::size_t at) {
  if (at >= text.size()) return std::nullopt;
  const char sign = text[at++];
  if (sign == 'Z' || sign == 'z') return at == text.size() ? std::optional(std::chrono::minutes(0)) : std::nullopt;
  if (sign != '+' && sign != '-') return std::nullopt;
  const auto hours = digits_at(text, at, 2);
  if (!hours || !skips(text, at, ':')) return std::nullopt;
  const auto minutes = digits_at(text, at, 2);
  if (!minutes || at != text.size() || *hours > 23 || *minutes > 59) return std::nullopt;
  const std::chrono::minutes offset(*hours * 60 + *minutes);
  return sign == '-' ? -offset : offset;
}

// Parses optional seconds with a fraction, as milliseconds.
std::optional<Duration> seconds_at(std::string_view text, std::size_t& at) {
  if (at >= text.size() || text[at] != ':') return Duration::zero();
  ++at;
  const auto seconds = digits_at(text, at, 2);
  if (!seconds || *seconds > 59) return std::nullopt;
  Duration all = std::chrono::seconds(*seconds);
  if (at >= text.size() || text[at] != '.') return all;
  const std::size_t begin = ++at;
  for (int factor = 100; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, factor /= 10) {
    all += Duration((text[at] - '0') * factor);
  }
  return at == begin ? std::nullopt : std::optional(all);
}

}  // namespace

std::optional<Time> parse_time(std::string_view text) {
  std::size_t at = 0;
  const auto year = digits_at(text, at, 4);
  if (!year || !skips(text, at, '-')) return std::nullopt;
  const auto month = digits_at(text, at, 2);
  if (!month || !skips(text, at, '-')) return std::nullopt;
  const auto day = digits_at(text, at, 2);
  if (!day || !skips(text, at, 'T')) return std::nullopt;
  const auto hour = digits_at(text, at, 2);
  if (!hour || !skips(text, at, ':')) return std::nullopt;
  const auto minute = digits_at(text, at, 2);
  const auto seconds = minute ? seconds_at(text, at) : std::nullopt;
  const auto offset = seconds ? offset_at(text, at) : std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!offset || !date.ok() || *hour > 23 || *minute > 59) return std::nullopt;
  return Time(std::chrono::sys_days(date).time_since_epoch() + std::chrono::hours(*hour) +
              std::chrono::minutes(*minute) + *seconds - *offset);
}

std::string_view name_of(State state) {
  return state_names.at(static_cast<std::size_t>(state));
}

std::string_view counted_name(std::size_t place) {
  return place == lapsed_at ? "lapsed" : state_names.at(place);
}

std::optional<State> state_named(std::string_view name) {
  const auto found = std::ranges::find(state_names, name);
  if (found == state_names.end()) return std::nullopt;
  return State{static_cast<std::uint8_t>(found - state_names.begin())};
}

void append_body(std::string& out, std::string_view body) {
  const bool text = is_utf8(body);
  out.append(text ? ",\"body\":" : ",\"body_base64\":");
  append_json_string(out, text ? std::string(body) : to_base64(body));
}

bool is_live(const KeyInfo& key, Time now) {
  return key.state == State::started && now < key.lease_until;
}

std::string version_of(const KeyInfo& key) {
  Sha256 hash;
  hash.update("once key version 1");
  hash.update(key.id.view());
  hash.update(key.nonce.view());
  hash.update(fmt::format("{}.{}.{}", static_cast<int>(key.state), static_cast<std::uint64_t>(key.fence),
                          static_cast<std::uint32_t>(key.attempt)));
  const Digest digest = hash.digest();
  constexpr std::size_t enough = 12;
  return to_hex(std::string_view(reinterpret_cast<const char*>(digest.data()), enough));
}

std::string key_json(const KeyInfo& key, Time now, std::string_view members, const OutcomeBytes& outcome) {
  std::string out = fmt::format(R"({{{}"id":"{}","state":"{}")", members, to_hex(key.id), name_of(key.state));
  append_text(out, "caller", key.tenant);
  append_labels(out, key.route);
  fmt::format_to(std::back_inserter(out), R"(,"attempt":{},"fence":{},"version":"{}")",
                 static_cast<std::uint32_t>(key.attempt), static_cast<std::uint64_t>(key.fence), version_of(key));
  append_time(out, "started_at", key.started_at);
  append_time(out, "lease_until", key.state == State::started ? std::optional(key.lease_until) : std::nullopt);
  fmt::format_to(std::back_inserter(out), ",\"live\":{}", is_live(key, now));
  append_time(out, "expires_at", key.expires_at);
  append_time(out, "forget_at", key.forget_at);
  fmt::format_to(std::back_inserter(out), R"(,"body_kept":{},"body":{},"outcome_bytes":{})",
                 key.body_kept != BodyKept::no, body_place(key), key.outcome_bytes);
  if (outcome != nullptr) append_outcome(out, outcome);
  out.push_back('}');
  return out;
}

std::string page_json(const KeyPage& page) {
  std::string out = "{\"keys\":[";
  for (const KeyInfo& key : page.keys) {
    if (&key != page.keys.data()) out.push_back(',');
    out.append(key_json(key, page.now));
  }
  out.append("],\"next\":");
  if (page.next.empty()) {
    out.append("null");
  } else {
    append_json_string(out, page.next);
  }
  out.append("}\n");
  return out;
}

std::expected<ListRequest, std::string> read_list(std::string_view query, Time now) {
  ListRequest list;
  if (query.empty()) return list;
  for (const std::string_view part : split(query, '&')) {
    if (part.empty()) continue;
    const std::size_t equals = part.find('=');
    const std::string_view name = part.substr(0, equals);
    const auto value = percent_decoded(equals == std::string_view::npos ? "" : part.substr(equals + 1));
    if (!value) return Wrong(fmt::format("\"{}\": expected two hex digits after every %.", name));
    if (const std::string expected = set_parameter(list, name, *value, now); !expected.empty()) {
      return Wrong(fmt::format("\"{}\": expected {}.", name, expected));
    }
  }
  return list;
}

bool choose_part(ListRequest& list) {
  if (list.among == Among::lapsed) list.filter.state = State::started;
  if (list.among != Among::unsettled) return true;
  const bool later = list.cursor.starts_with(unknown_part);
  if (!later && !list.cursor.empty() && !list.cursor.starts_with(lapsed_part)) return false;
  list.filter.state = later ? State::unknown : State::started;
  if (!list.cursor.empty()) list.cursor.erase(0, later ? unknown_part.size() : lapsed_part.size());
  return true;
}

void fit_page(KeyPage& page, const ListRequest& list) {
  if (list.among == Among::all) return;
  std::erase_if(page.keys, [&page](const KeyInfo& key) { return is_live(key, page.now); });
  if (list.among == Among::lapsed) return;
  if (list.filter.state == State::started) {
    page.next.insert(0, page.next.empty() ? unknown_part : lapsed_part);
  } else if (!page.next.empty()) {
    page.next.insert(0, unknown_part);
  }
}

bool wants_body(std::string_view query) {
  return std::ranges::any_of(split(query, '&'), [](std::string_view part) { return part == "body=1"; });
}

std::expected<FindRequest, std::string> read_find(std::string_view body) {
  const auto tree = JsonTree::parse(body);
  if (!tree || tree->object() == nullptr) return Wrong("The body must be one JSON object.");
  std::array<std::string, 10> texts;
  static constexpr std::array<std::string_view, 10> names = {"key",  "method",      "path",       "tenant", "scope",
                                                             "peer", "tls_subject", "tls_issuer", "body",   "host"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto text = text_member(*tree, names.at(i));
    if (!text) return Wrong(text.error());
    texts.at(i) = *std::move(text);
  }
  for (const auto& [name, value] : *tree->object()) {
    if (name != "headers" && std::ranges::find(names, name) == names.end()) {
      return Wrong(
          "The members are key, method, host, path, headers, body, peer, tls_subject and tls_issuer; or tenant, "
          "scope and key.");
    }
  }
  const bool has_key = tree->find("key") != nullptr && !tree->find("key")->is_null();
  const bool of_claims = tree->find("scope") != nullptr;
  if (of_claims) {
    if (!has_key || !texts[2].empty()) return Wrong("A key of the claims API has tenant, scope and key, nothing else.");
    return FindRequest{.tenant = texts[3].empty() ? "local" : texts[3], .scope = texts[4], .key = texts[0]};
  }
  if (texts[2].empty()) return Wrong("\"path\" is missing, or \"scope\" for a key of the claims API.");
  auto headers = headers_in(*tree);
  if (!headers) return Wrong(headers.error());
  return FindRequest{.request = AskedRequest{.method = texts[1].empty() ? "POST" : texts[1],
                                             .target = texts[2],
                                             .host = texts[9],
                                             .headers = *std::move(headers),
                                             .key = has_key ? std::optional(texts[0]) : std::nullopt,
                                             .body = texts[8],
                                             .peer = texts[5],
                                             .tls_subject = texts[6],
                                             .tls_issuer = texts[7]}};
}

std::expected<ActionRequest, std::string> read_action(Action action, std::string_view body) {
  const auto tree = JsonTree::parse(body);
  if (!tree || tree->object() == nullptr) return Wrong("The body must be one JSON object.");
  auto request = terms_in(*tree, action);
  if (request && request->version.empty()) {
    return Wrong("\"version\" is missing: use the version of the key that you read.");
  }
  return request;
}

std::expected<BulkRequest, std::string> read_bulk(Action action, std::string_view body) {
  const auto tree = JsonTree::parse(body);
  if (!tree || tree->object() == nullptr) return Wrong("The body must be one JSON object.");
  BulkRequest request;
  auto terms = terms_in(*tree, action);
  if (!terms) return Wrong(terms.error());
  if (!terms->version.empty()) return Wrong("\"version\" must be in each of the \"keys\".");
  request.terms = *std::move(terms);
  const JsonTree* keys = tree->find("keys");
  if (keys == nullptr || keys->array() == nullptr || keys->array()->empty() || keys->array()->size() > most_bulk_keys) {
    return Wrong(fmt::format("\"keys\" must be an array of 1 to {} keys: [{{\"id\", \"version\"}}].", most_bulk_keys));
  }
  std::set<std::string_view> ids;
  for (const JsonTree& key : *keys->array()) {
    const JsonTree* id = key.find("id");
    const JsonTree* version = key.find("version");
    const auto bytes = id == nullptr || id->string() == nullptr ? std::nullopt : from_hex(*id->string());
    const bool complete = bytes && bytes->size() == OperationId::size && version != nullptr &&
                          version->string() != nullptr && !version->string()->empty();
    if (!complete)
      return Wrong("Each of the \"keys\" needs an \"id\" of 64 hex digits and the \"version\" that you read.");
    SeenKey& seen = request.keys.emplace_back();
    std::memcpy(seen.id.bytes.data(), bytes->data(), bytes->size());
    seen.version = *version->string();
    if (!ids.insert(*id->string()).second) return Wrong("\"keys\" contains a key twice.");
  }
  return request;
}

Effect effect_of(const Op& tried, const KeyInfo& key, const Op& seen) {
  if (tried.status == OpStatus::done) return Effect::done;
  const bool lost = tried.status == OpStatus::lost;
  if (!lost && tried.fault != StoreFault::unavailable) return Effect::none;
  if (seen.status != OpStatus::done) return Effect::unknown;
  const bool resolves = writes_outcome(tried.verb);
  if (!seen.record) return resolves ? Effect::unknown : Effect::done;
  const Record& stands = *seen.record;
  if (stands.nonce == tried.nonce) {
    const bool as_asked = stands.state == tried.final_state && stands.body_kept == tried.body_kept;
    if (resolves && as_asked && same_bytes(stands.outcome, tried.outcome)) return Effect::done;
    // A failed op may still reach the store later; a lost one was refused by it.
    return !lost && stands.state == key.state ? Effect::unknown : Effect::none;
  }
  // The record has another owner. The action certainly had no effect only if the attempt that was seen still exists,
  // released by the owner that had taken it over, or if the next attempt took over from it. In both cases its state
  // must not be one that this action could have set.
  const bool same_attempt = stands.attempt == key.attempt && stands.started_at == key.started_at;
  const bool next_attempt = std::to_underlying(stands.attempt) == std::to_underlying(key.attempt) + 1 &&
                            stands.previous_started_at == key.started_at;
  const State taken_over = same_attempt ? stands.state : stands.previous_state;
  const bool by_this = resolves && taken_over == tried.final_state;
  return (same_attempt || next_attempt) && !by_this ? Effect::none : Effect::unknown;
}

}  // namespace once::admin
