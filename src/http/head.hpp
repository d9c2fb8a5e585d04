// The only parser for heads of HTTP/1.1 messages. It is strict: anything that two parsers could read differently is
// refused, because that is how requests are smuggled past a gateway. docs/design/0001-own-loop-and-parser.md says why
// it is written by hand.
//
// A head is parsed from its start each time another line has arrived (HeadProgress). A malformed head is refused before
// it is complete. Fields are views into the given bytes, which must not move while the head is in use. A Head is
// reused for the next message, so that parsing allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/fields.hpp"
#include "core/policy.hpp"

namespace once::http {

using core::Field;

// How the end of the body is found.
struct Framing {
  enum class Kind : std::uint8_t {
    none,
    length,
    chunked,
    until_close,  // responses only
  };
  Kind kind = Kind::none;
  std::uint64_t length = 0;

  bool has_body() const { return kind != Kind::none && (kind != Kind::length || length > 0); }
};

struct HeadLimits {
  std::size_t max_bytes = 32768;
  std::size_t max_fields = 100;
  std::size_t max_target = 8192;
};

enum class Version : std::uint8_t { http_1_0, http_1_1 };

enum class Persistence : std::uint8_t { keep, close };

// Common to requests and responses.
struct Head {
  Version version = Version::http_1_1;
  std::vector<Field> fields;
  Framing framing;
  Persistence persistence = Persistence::keep;
  bool connection_names_fields = false;  // Connection lists more than close, keep-alive and upgrade
  bool upgrade = false;                  // Connection: upgrade, and an Upgrade field
  std::size_t size = 0;                  // bytes of the head, including the empty line

  // The value of the first field of that name.
  std::optional<std::string_view> find(std::string_view name) const;
  // Whether the field is hop-by-hop: listed in Connection, or always so.
  bool hop_by_hop(std::string_view name) const;
};

// The scheme of an absolute-form target.
enum class TargetScheme : std::uint8_t { none, http, https };

struct RequestHead : Head {
  std::string_view method_text;
  Method method = Method::other;
  std::string_view target;  // origin-form or *, byte for byte; an absolute-form is converted
  std::string_view path;    // of the target, without the query
  std::string_view host;    // from an absolute-form target if there is one (RFC 9112 3.2.2), else from Host
  TargetScheme scheme = TargetScheme::none;
  bool has_host = false;  // whether the field is present
  bool expects_continue = false;
  std::string made_target;  // storage for the target of a URL with a query and no path
};

struct ResponseHead : Head {
  int status = 0;
  std::string_view reason;
};

enum class HeadError : std::uint8_t {
  bad_request_line,
  bad_version,
  bad_field,
  bad_host,
  bad_framing,  // ambiguous or malformed Content-Length or Transfer-Encoding
  bad_status_line,
  target_too_long,
  too_large,
  too_many_fields,
  unsupported_coding,
  unsupported_method,  // CONNECT and TRACE
};
const char* describe(HeadError error);

enum class Parsed : std::uint8_t { complete, incomplete, bad };

struct ParseResult {
  Parsed parsed;
  HeadError error{};  // when bad
};

ParseResult parse(std::string_view bytes, const HeadLimits& limits, RequestHead& head);

// What the head of a response says about its connection.
enum class ConnectionField : std::uint8_t { none, close, keep_alive, upgrade };

// The head of a response to write.
struct HeadToWrite {
  int status;
  std::string_view reason;
  core::FieldsView fields;
  Framing framing = {};
  ConnectionField connection = ConnectionField::none;
};
void append_head(std::string& out, const HeadToWrite& head);

void append_framing(std::string& out, const Framing& framing);

// Determines when to parse an incomplete head again: when another line is complete, or a limit is exceeded. A head
// that arrives byte by byte is then parsed once per line, whose number is limited, and not once per byte.
class HeadProgress {
 public:
  // `bytes` is the part of the head that has arrived.
  bool worth_parsing(std::string_view bytes, const HeadLimits& limits);

 private:
  std::size_t seen_ = 0;
};

// `answers` is the method of the request, which decides whether the response has a body.
ParseResult parse(std::string_view bytes, const HeadLimits& limits, Method answers, ResponseHead& head);

}  // namespace once::http
