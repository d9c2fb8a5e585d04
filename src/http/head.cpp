#include "http/head.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "core/fields.hpp"
#include "core/headers.hpp"

namespace once::http {

namespace {

constexpr std::string_view crlf = "\r\n";
constexpr std::size_t first_line_rest = 64;  // more than method, version and two blanks need

using CharSet = std::array<bool, 256>;

constexpr CharSet token_chars = [] {
  CharSet set{};
  for (unsigned c = 0; c < 256; ++c) set[c] = core::is_token_char(static_cast<char>(c));
  return set;
}();

constexpr CharSet host_chars = [] {
  CharSet set{};
  for (const char c : std::string_view("-._~%!$&'()*+,;=:[]")) set[static_cast<unsigned char>(c)] = true;
  for (unsigned c = 0; c < 256; ++c) {
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) set[c] = true;
  }
  return set;
}();

// Visible ASCII except '#': a fragment is not allowed in a request.
constexpr CharSet target_chars = [] {
  CharSet set{};
  for (unsigned c = 0x21; c < 0x7f; ++c) set[c] = c != '#';
  return set;
}();

bool all_in(const CharSet& set, std::string_view text) {
  for (const char c : text) {
    if (!set[static_cast<unsigned char>(c)]) return false;
  }
  return true;
}

bool is_space(char c) {
  return c == ' ' || c == '\t';
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

ParseResult bad(HeadError error) {
  return {.parsed = Parsed::bad, .error = error};
}

enum class HeadLine : std::uint8_t { whole, partial, bad };

// The line at `position`, without its CRLF; `position` moves past it. A bare CR is bad. A bare LF stays in the line for
// the caller to refuse; in an incomplete line it is refused at once, because more bytes cannot make the line valid.
HeadLine next_line(std::string_view bytes, std::size_t& position, std::string_view& line) {
  const std::size_t end = bytes.find('\r', position);
  if (end == std::string_view::npos || end + 1 == bytes.size()) {
    return bytes.find('\n', position) == std::string_view::npos ? HeadLine::partial : HeadLine::bad;
  }
  if (bytes[end + 1] != '\n') return HeadLine::bad;
  line = bytes.substr(position, end - position);
  position = end + crlf.size();
  return HeadLine::whole;
}

bool parse_length(std::string_view text, std::uint64_t& length) {
  if (text.empty() || text.size() > 18) return false;  // 18 digits cannot overflow
  length = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    length = length * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return true;
}

// What the fields say about framing and the connection, collected during parsing.
struct Facts {
  std::optional<std::string_view> content_length;
  std::optional<std::string_view> transfer_encoding;
  std::optional<std::string_view> host;
  bool several_lengths = false;
  bool several_codings = false;
  bool several_hosts = false;
  bool has_upgrade = false;
  bool upgrade_to_http_2 = false;
  bool connection_upgrade = false;
  bool connection_close = false;
  bool connection_keep_alive = false;
  bool expects_continue = false;
  std::size_t connection_items = 0;
};

// Every field is compared with every item of Connection, so a long list would multiply the work for one request.
constexpr std::size_t most_connection_items = 64;

void note_connection(Head& head, Facts& facts, std::string_view value) {
  while (!value.empty() && facts.connection_items <= most_connection_items) {
    ++facts.connection_items;
    const std::size_t comma = value.find(',');
    const std::string_view token = trim(value.substr(0, comma));
    if (same_name(token, "close")) {
      facts.connection_close = true;
    } else if (same_name(token, "keep-alive")) {
      facts.connection_keep_alive = true;
    } else if (same_name(token, "upgrade")) {
      facts.connection_upgrade = true;
    } else if (!token.empty()) {
      head.connection_names_fields = true;
    }
    value.remove_prefix(comma == std::string_view::npos ? value.size() : comma + 1);
  }
}

// Any protocol may be upgraded to except HTTP/2: requests inside that tunnel would bypass Once.
void note_upgrade(Facts& facts, std::string_view value) {
  facts.has_upgrade = true;
  facts.upgrade_to_http_2 = facts.upgrade_to_http_2 || named_in_connection(value, "h2c");
}

void note(Head& head, Facts& facts, const Field& field) {
  switch (field.name.size()) {
    case 4:
      if (same_name(field.name, "host")) {
        facts.several_hosts = facts.host.has_value();
        facts.host = field.value;
      }
      break;
    case 6:
      if (same_name(field.name, "expect") && same_name(field.value, "100-continue")) facts.expects_continue = true;
      break;
    case 7:
      if (same_name(field.name, "upgrade")) note_upgrade(facts, field.value);
      break;
    case 10:
      if (same_name(field.name, "connection")) note_connection(head, facts, field.value);
      break;
    case 14:
      if (same_name(field.name, "content-length")) {
        facts.several_lengths = facts.content_length.has_value();
        facts.content_length = field.value;
      }
      break;
    case 17:
      if (same_name(field.name, "transfer-encoding")) {
        facts.several_codings = facts.transfer_encoding.has_value();
        facts.transfer_encoding = field.value;
      }
      break;
    default: break;
  }
}

// Parses one field line. A missing colon or name, white space before the colon and a folded line are all refused,
// because the name is no token then.
ParseResult parse_field(std::string_view line, std::string_view with_end, const HeadLimits& limits, Head& head,
                        Facts& facts) {
  std::size_t colon = 0;
  while (colon < line.size() && token_chars[static_cast<unsigned char>(line[colon])]) ++colon;
  if (colon == 0 || colon == line.size() || line[colon] != ':') return bad(HeadError::bad_field);
  const Field field{.name = line.substr(0, colon), .value = trim(line.substr(colon + 1)), .line = with_end};
  if (!core::is_field_value(field.value)) return bad(HeadError::bad_field);
  if (head.fields.size() == limits.max_fields) return bad(HeadError::too_many_fields);
  head.fields.push_back(field);
  note(head, facts, field);
  if (facts.connection_items > most_connection_items) return bad(HeadError::too_many_fields);
  return {.parsed = Parsed::complete};
}

// Parses the fields from `position` to the empty line and sets the head's size.
ParseResult parse_fields(std::string_view bytes, std::size_t position, const HeadLimits& limits, Head& head,
                         Facts& facts) {
  while (true) {
    const std::size_t start = position;
    std::string_view line;
    const HeadLine found = next_line(bytes, position, line);
    if (found == HeadLine::bad) return bad(HeadError::bad_field);
    if (found == HeadLine::partial) {
      return bytes.size() >= limits.max_bytes ? bad(HeadError::too_large) : ParseResult{.parsed = Parsed::incomplete};
    }
    if (line.empty()) break;
    const ParseResult result = parse_field(line, bytes.substr(start, position - start), limits, head, facts);
    if (result.parsed != Parsed::complete) return result;
  }
  head.size = position;
  return position > limits.max_bytes ? bad(HeadError::too_large) : ParseResult{.parsed = Parsed::complete};
}

// Derives the framing from Content-Length and Transfer-Encoding. Fails if they are ambiguous or malformed.
bool explicit_framing(const Facts& facts, Framing& framing) {
  if (facts.several_lengths || facts.several_codings) return false;
  if (facts.content_length && facts.transfer_encoding) return false;
  if (facts.content_length) {
    framing.kind = Framing::Kind::length;
    return parse_length(*facts.content_length, framing.length);
  }
  if (facts.transfer_encoding) framing.kind = Framing::Kind::chunked;
  return true;
}

// The error for a Transfer-Encoding other than just "chunked". Another coding before chunked is unsupported. A list
// that does not end in chunked, or has it twice, leaves the end of the body undefined (RFC 9112 6.3).
HeadError coding_error(std::string_view codings) {
  const std::size_t last = codings.rfind(',');
  if (last == std::string_view::npos || !same_name(trim(codings.substr(last + 1)), "chunked")) {
    return HeadError::bad_framing;
  }
  const std::string_view others = trim(codings.substr(0, last));
  const bool malformed = others.empty() || named_in_connection(others, "chunked");
  return malformed ? HeadError::bad_framing : HeadError::unsupported_coding;
}

ParseResult check_framing(const Facts& facts, Head& head) {
  if (!explicit_framing(facts, head.framing)) return bad(HeadError::bad_framing);
  if (!facts.transfer_encoding) return {.parsed = Parsed::complete};
  if (head.version == Version::http_1_0) return bad(HeadError::bad_framing);
  if (same_name(*facts.transfer_encoding, "chunked")) return {.parsed = Parsed::complete};
  return bad(coding_error(*facts.transfer_encoding));
}

void set_persistence(Head& head, const Facts& facts) {
  const bool keep = head.version == Version::http_1_1 ? !facts.connection_close
                                                      : facts.connection_keep_alive && !facts.connection_close;
  head.persistence = keep ? Persistence::keep : Persistence::close;
  head.upgrade =
      facts.has_upgrade && !facts.upgrade_to_http_2 && facts.connection_upgrade && head.version == Version::http_1_1;
}

void reset(Head& head) {
  head.fields.clear();
  head.framing = Framing();
  head.connection_names_fields = false;
}

// Parses "HTTP/1.1". A higher minor version counts as the highest known one (RFC 9110 2.5); another major version is
// bad_version, and anything else `malformed`.
ParseResult parse_version(std::string_view text, HeadError malformed, Version& version) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool well_formed =
      text.size() == 8 && text.starts_with("HTTP/") && is_digit(text[5]) && text[6] == '.' && is_digit(text[7]);
  if (!well_formed) return bad(malformed);
  if (text[5] != '1') return bad(HeadError::bad_version);
  version = text[7] == '0' ? Version::http_1_0 : Version::http_1_1;
  return {.parsed = Parsed::complete};
}

bool take_scheme(std::string_view& target, std::string_view scheme) {
  if (target.size() < scheme.size() || !same_name(target.substr(0, scheme.size()), scheme)) return false;
  target.remove_prefix(scheme.size());
  return true;
}

// Converts an absolute-form target to origin-form, with its authority as host. Fails if it is not in absolute-form.
bool take_authority(RequestHead& head, std::optional<std::string_view>& authority) {
  std::string_view rest = head.target;
  if (take_scheme(rest, "http://")) {
    head.scheme = TargetScheme::http;
  } else if (take_scheme(rest, "https://")) {
    head.scheme = TargetScheme::https;
  } else {
    return false;
  }
  const std::size_t end = std::min(rest.find_first_of("/?"), rest.size());
  authority = rest.substr(0, end);
  if (authority->empty() || authority->front() == ':') return false;  // RFC 9110 4.2.1: a URL has a host
  head.target = rest.substr(end);
  if (head.target.empty()) {
    head.target = head.method == Method::options ? "*" : "/";  // RFC 9112 3.2.4
  } else if (head.target.front() == '?') {
    head.made_target.assign("/").append(head.target);
    head.target = head.made_target;
  }
  return true;
}

ParseResult parse_request_line(std::string_view line, const HeadLimits& limits, RequestHead& head,
                               std::optional<std::string_view>& authority) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || first == 0) return bad(HeadError::bad_request_line);
  head.method_text = line.substr(0, first);
  head.target = line.substr(first + 1, last - first - 1);
  if (!all_in(token_chars, head.method_text)) return bad(HeadError::bad_request_line);
  if (head.target.size() > limits.max_target) return bad(HeadError::target_too_long);
  if (head.target.empty() || !all_in(target_chars, head.target)) return bad(HeadError::bad_request_line);
  const ParseResult version = parse_version(line.substr(last + 1), HeadError::bad_request_line, head.version);
  if (version.parsed != Parsed::complete) return version;
  head.method = parse_method(head.method_text);
  // Refuse these whatever their target: CONNECT tunnels past every route, and TRACE shows scripts the credentials that
  // a browser hides from them.
  if (head.method == Method::connect || head.method == Method::trace) return bad(HeadError::unsupported_method);
  if (head.target.front() != '/') {
    const bool asterisk = head.target == "*" && head.method == Method::options;
    if (!asterisk && !take_authority(head, authority)) return bad(HeadError::bad_request_line);
  }
  head.path = head.target.substr(0, head.target.find('?'));
  return {.parsed = Parsed::complete};
}

// Whether the value names a host: "", ":80" and "." do not.
bool names_host(std::string_view host) {
  const std::string_view name = host.substr(0, host.find(':'));
  return !name.empty() && name != "." && all_in(host_chars, host);
}

ParseResult check_request(RequestHead& head, const Facts& facts, std::optional<std::string_view> authority) {
  if (facts.several_hosts || (!facts.host && head.version == Version::http_1_1)) return bad(HeadError::bad_host);
  head.has_host = facts.host.has_value();
  head.host = facts.host.value_or(std::string_view());
  // Host is part of the scope of every key. RFC 9112 3.2 allows an empty Host only for URLs without an authority.
  if (head.has_host && !names_host(head.host)) return bad(HeadError::bad_host);
  if (authority) head.host = *authority;
  if (authority && !names_host(*authority)) return bad(HeadError::bad_host);
  const ParseResult framing = check_framing(facts, head);
  if (framing.parsed != Parsed::complete) return framing;
  head.expects_continue = facts.expects_continue && head.version == Version::http_1_1;
  set_persistence(head, facts);
  return {.parsed = Parsed::complete};
}

ParseResult parse_status_line(std::string_view line, ResponseHead& head) {
  constexpr std::size_t status_at = 9;  // after "HTTP/1.1 "
  constexpr std::size_t status_end = status_at + 3;
  if (line.size() < status_end || line[status_at - 1] != ' ') return bad(HeadError::bad_status_line);
  const ParseResult version = parse_version(line.substr(0, status_at - 1), HeadError::bad_status_line, head.version);
  if (version.parsed != Parsed::complete) return version;
  head.status = 0;
  for (const char c : line.substr(status_at, 3)) {
    if (c < '0' || c > '9') return bad(HeadError::bad_status_line);
    head.status = head.status * 10 + (c - '0');
  }
  head.reason = {};
  if (line.size() > status_end) {
    if (line[status_end] != ' ') return bad(HeadError::bad_status_line);
    head.reason = line.substr(status_end + 1);
  }
  if (!core::is_field_value(head.reason)) return bad(HeadError::bad_status_line);
  // RFC 9110 15: treat an undefined status as a 5xx. 502 says that the backend's response is invalid.
  if (head.status < 100 || head.status > 599) {
    head.status = 502;
    head.reason = {};
  }
  return {.parsed = Parsed::complete};
}

// Unites equal lengths, repeated in one field or in several (RFC 9112 6.3). Requests with them are refused, because
// another parser on the way may have used just one.
void unite_lengths(Head& head, Facts& facts) {
  if (!facts.content_length || (!facts.several_lengths && !facts.content_length->contains(','))) return;
  const auto is_length = [](const Field& field) { return same_name(field.name, "content-length"); };
  const auto first = std::ranges::find_if(head.fields, is_length);
  const std::string_view length = trim(first->value.substr(0, first->value.find(',')));
  for (const Field& field : head.fields) {
    if (!is_length(field)) continue;
    for (const std::string_view each : split(field.value, ',')) {
      if (trim(each) != length) return;
    }
  }
  first->value = length;
  head.fields.erase(std::remove_if(first + 1, head.fields.end(), is_length), head.fields.end());
  facts.content_length = length;
  facts.several_lengths = false;
}

ParseResult check_response(ResponseHead& head, const Facts& facts, Method answers) {
  const ParseResult framing = check_framing(facts, head);
  if (framing.parsed != Parsed::complete) return framing;
  set_persistence(head, facts);
  const bool no_body = answers == Method::head || head.status < 200 || head.status == 204 || head.status == 304;
  if (no_body) {
    head.framing = Framing();
  } else if (!facts.content_length && !facts.transfer_encoding) {
    head.framing.kind = Framing::Kind::until_close;
    head.persistence = Persistence::close;
  }
  return {.parsed = Parsed::complete};
}

}  // namespace

const char* describe(HeadError error) {
  switch (error) {
    case HeadError::bad_request_line: return "malformed request line";
    case HeadError::bad_version: return "only HTTP/1.1 and HTTP/1.0 are supported";
    case HeadError::bad_field: return "malformed header field";
    case HeadError::bad_host: return "missing, empty, repeated or malformed Host";
    case HeadError::bad_framing: return "ambiguous or malformed Content-Length or Transfer-Encoding";
    case HeadError::bad_status_line: return "malformed status line";
    case HeadError::target_too_long: return "the request target is too long";
    case HeadError::too_large: return "the header is too large";
    case HeadError::too_many_fields: return "too many header fields";
    case HeadError::unsupported_coding: return "unsupported transfer coding";
    case HeadError::unsupported_method: return "CONNECT and TRACE are not supported";
  }
  return "";
}

std::optional<std::string_view> Head::find(std::string_view name) const {
  for (const Field& field : fields) {
    if (same_name(field.name, name)) return field.value;
  }
  return std::nullopt;
}

bool Head::hop_by_hop(std::string_view name) const {
  if (is_hop_by_hop(name)) return true;
  if (!connection_names_fields) return false;
  // These are never hop-by-hop, even if Connection names them: without them the message would mean something else.
  if (same_name(name, "content-length") || same_name(name, "host")) return false;
  for (const Field& field : fields) {
    if (same_name(field.name, "connection") && named_in_connection(field.value, name)) return true;
  }
  return false;
}

bool HeadProgress::worth_parsing(std::string_view bytes, const HeadLimits& limits) {
  const std::size_t before = std::min(seen_, bytes.size());
  seen_ = bytes.size();
  const std::size_t longest_line = limits.max_target + first_line_rest;
  const bool passed_limit = (before <= longest_line && bytes.size() > longest_line) || bytes.size() >= limits.max_bytes;
  return passed_limit || bytes.find('\n', before) != std::string_view::npos;
}

void append_framing(std::string& out, const Framing& framing) {
  switch (framing.kind) {
    case Framing::Kind::length:
      out.append("Content-Length: ");
      append_number(out, framing.length);
      out.append("\r\n");
      break;
    case Framing::Kind::chunked: out.append("Transfer-Encoding: chunked\r\n"); break;
    case Framing::Kind::none:
    case Framing::Kind::until_close: break;
  }
}

void append_head(std::string& out, const HeadToWrite& head) {
  out.append("HTTP/1.1 ");
  append_number(out, static_cast<std::uint64_t>(head.status));
  out.append(" ").append(head.reason).append("\r\n").append(head.fields.lines());
  append_framing(out, head.framing);
  switch (head.connection) {
    case ConnectionField::close: out.append("Connection: close\r\n"); break;
    case ConnectionField::keep_alive: out.append("Connection: keep-alive\r\n"); break;
    case ConnectionField::upgrade: out.append("Connection: upgrade\r\n"); break;
    case ConnectionField::none: break;
  }
  out.append("\r\n");
}

ParseResult parse(std::string_view bytes, const HeadLimits& limits, RequestHead& head) {
  reset(head);
  head.scheme = TargetScheme::none;
  std::size_t position = 0;
  std::string_view first;
  const HeadLine found = next_line(bytes, position, first);
  if (found == HeadLine::bad) return bad(HeadError::bad_request_line);
  if (found == HeadLine::partial) {
    if (bytes.size() > limits.max_target + first_line_rest) return bad(HeadError::target_too_long);
    return bytes.size() >= limits.max_bytes ? bad(HeadError::too_large) : ParseResult{.parsed = Parsed::incomplete};
  }
  std::optional<std::string_view> authority;
  ParseResult result = parse_request_line(first, limits, head, authority);
  if (result.parsed != Parsed::complete) return result;
  Facts facts;
  result = parse_fields(bytes, position, limits, head, facts);
  if (result.parsed != Parsed::complete) return result;
  return check_request(head, facts, authority);
}

ParseResult parse(std::string_view bytes, const HeadLimits& limits, Method answers, ResponseHead& head) {
  reset(head);
  std::size_t position = 0;
  std::string_view first;
  const HeadLine found = next_line(bytes, position, first);
  if (found == HeadLine::bad) return bad(HeadError::bad_status_line);
  if (found == HeadLine::partial) {
    return bytes.size() >= limits.max_bytes ? bad(HeadError::too_large) : ParseResult{.parsed = Parsed::incomplete};
  }
  ParseResult result = parse_status_line(first, head);
  if (result.parsed != Parsed::complete) return result;
  Facts facts;
  result = parse_fields(bytes, position, limits, head, facts);
  if (result.parsed != Parsed::complete) return result;
  unite_lengths(head, facts);
  return check_response(head, facts, answers);
}

}  // namespace once::http
