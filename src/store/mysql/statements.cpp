#include "store/mysql/statements.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/text.hpp"
#include "core/decision.hpp"

namespace once::mysql {

namespace {

constexpr std::string_view columns =
    "id,state,body_kept,attempt,fence,fingerprint,nonce,started_at,lease_until,expires_at,ttl,tombstone,previous_state,"
    "previous_started_at,chunks_fence,outcome";
constexpr std::size_t column_count = 16;
constexpr const char* clock_us = "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',SYSDATE(6))";
constexpr std::size_t longest_label = 255;

template <std::size_t Size, class Tag>
bool read_blob(std::optional<std::string_view> text, Blob<Size, Tag>& out) {
  if (!text || text->size() != Size) return false;
  std::memcpy(out.bytes.data(), text->data(), Size);
  return true;
}

template <class Integer>
bool read_integer(std::optional<std::string_view> text, Integer& out) {
  if (!text) return false;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), out);
  return error == std::errc() && end == text->data() + text->size();
}

bool read_time(std::optional<std::string_view> text, Time& out) {
  Duration::rep since_epoch = 0;
  if (!read_integer(text, since_epoch)) return false;
  out = Time(Duration(since_epoch));
  return true;
}

bool read_state(std::optional<std::string_view> text, State& out) {
  std::uint8_t number = 0;
  if (!read_integer(text, number) || number > static_cast<std::uint8_t>(State::tombstone)) return false;
  out = static_cast<State>(number);
  return true;
}

void append_escaped(std::string& out, std::string_view value) {
  for (const char byte : value) {
    switch (byte) {
      case '\0': out.append("\\0"); break;
      case '\'': out.append("\\'"); break;
      case '\\': out.append("\\\\"); break;
      default: out.push_back(byte);
    }
  }
}

template <std::size_t Size, class Tag>
void append_hex_literal(std::string& out, const Blob<Size, Tag>& blob) {
  out.append("0x");
  append_hex(out, blob.view());
}

Duration::rep ms(Time time) {
  return time.time_since_epoch().count();
}

void append_outcome(std::string& out, const Record& record) {
  if (!record.outcome) {
    out.append("NULL");
    return;
  }
  out.append("_binary'");
  append_escaped(out, *record.outcome);
  out.push_back('\'');
}

// Like expired() in core/decision.hpp.
std::string has_expired(Time now) {
  return fmt::format("expires_at<={} AND(state<>0 OR lease_until<={})", ms(now), ms(now));
}

// For expired rows: like forgotten() in core/decision.hpp.
std::string is_forgotten(Time now) {
  return fmt::format("tombstone<={}-expires_at", ms(now));
}

std::string_view for_update(Held held) {
  return held == Held::skipped ? "FOR UPDATE SKIP LOCKED" : "FOR UPDATE NOWAIT";
}

std::uint64_t fence_of(const NewRow& written) {
  return static_cast<std::uint64_t>(written.row.record.fence);
}

// A fence instead of a flag, because programs of revision 4 would not clear a flag.
std::uint64_t chunks_fence_of(const NewRow& written) {
  return written.row.record.body_kept == BodyKept::in_chunks ? fence_of(written) : 0;
}

// True if operation `o` has readable chunks; their owner must be checked too.
constexpr std::string_view has_chunks = "(o.state IN(0,3)OR(o.state=1 AND o.body_kept=0 AND o.chunks_fence=o.fence))";

void append_values(std::string& out, const NewRow& written, std::string_view fence) {
  const Record& record = written.row.record;
  out.push_back('(');
  append_hex_literal(out, written.row.id);
  fmt::format_to(std::back_inserter(out), ",{},{},{},", static_cast<unsigned>(record.state),
                 record.body_kept == BodyKept::yes ? 1 : 0, static_cast<std::uint32_t>(record.attempt));
  out.append(fence).push_back(',');
  append_hex_literal(out, record.fingerprint);
  out.push_back(',');
  append_hex_literal(out, record.nonce);
  fmt::format_to(std::back_inserter(out), ",{},{},{},{},{},{},{},{},", ms(record.started_at), ms(record.lease_until),
                 ms(record.expires_at), written.row.ttl.count(), written.row.tombstone.count(),
                 static_cast<unsigned>(record.previous_state), ms(record.previous_started_at),
                 chunks_fence_of(written));
  append_outcome(out, record);
  fmt::format_to(std::back_inserter(out), ",{},'", ms(record.expires_at));
  append_escaped(out, label(written.tenant));
  out.append("','");
  append_escaped(out, label(written.route));
  out.append("')");
}

// The length of the UTF-8 character that begins here; 0 if it is invalid.
std::size_t character_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) return 0;
  }
  const auto second = length > 1 ? static_cast<unsigned char>(text[1]) : 0U;
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool outside = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return overlong || outside ? 0 : length;
}

}  // namespace

std::optional<Row> read_row(const RowView& view) {
  if (view.size() < column_count) return std::nullopt;
  Row row;
  Record& record = row.record;
  int body_kept = 0;
  std::uint32_t attempt = 0;
  std::uint64_t fence = 0;
  std::uint64_t chunks_fence = 0;
  Duration::rep ttl = 0;
  Duration::rep tombstone = 0;
  const bool good =
      read_blob(view[0], row.id) && read_state(view[1], record.state) && read_integer(view[2], body_kept) &&
      read_integer(view[3], attempt) && read_integer(view[4], fence) && read_blob(view[5], record.fingerprint) &&
      read_blob(view[6], record.nonce) && read_time(view[7], record.started_at) &&
      read_time(view[8], record.lease_until) && read_time(view[9], record.expires_at) && read_integer(view[10], ttl) &&
      read_integer(view[11], tombstone) && read_state(view[12], record.previous_state) &&
      read_time(view[13], record.previous_started_at) && read_integer(view[14], chunks_fence);
  if (!good) return std::nullopt;
  record.body_kept = body_kept != 0 ? BodyKept::yes : chunks_fence == fence ? BodyKept::in_chunks : BodyKept::no;
  record.attempt = Attempt{attempt};
  record.fence = Fence{fence};
  row.ttl = Duration(ttl);
  row.tombstone = Duration(tombstone);
  record.forget_at = saturating_add(record.expires_at, row.tombstone);
  if (const auto outcome = view[15]) record.outcome = std::make_shared<const std::string>(*outcome);
  return row;
}

std::optional<Chunk> read_chunk(const RowView& view) {
  Chunk chunk;
  const bool good =
      read_blob(view[0], chunk.id) && read_blob(view[1], chunk.nonce) && read_integer(view[2], chunk.number);
  return good ? std::optional(chunk) : std::nullopt;
}

void Script::add(Part part, std::string_view text) {
  if (!text_.empty()) text_.push_back(';');
  text_.append(text);
  parts_.push_back(part);
}

template <class Value>
void Script::append_list(std::span<const Value> values) {
  ONCE_ASSERT(!values.empty());
  char separator = '(';
  for (const Value& value : values) {
    text_.push_back(separator);
    append_hex_literal(text_, value);
    separator = ',';
  }
  text_.push_back(')');
}

Script::Part Script::part(std::size_t statement) const {
  ONCE_ASSERT(!parts_.empty());
  return parts_[std::min(statement, parts_.size() - 1)];
}

void Script::ask_clock() {
  add(Part::clock, "SELECT TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))");
}

// Forces the primary key, because for a small table the server would read, and lock, every row.
void Script::lock(const Locks& locks, Held held) {
  const auto& [ids, owners, claims] = locks;
  add(Part::locked, "SELECT ");
  text_.append(columns).append(" FROM once_operations FORCE INDEX(PRIMARY) WHERE id IN");
  // A single row would be read as a constant and stay locked even if it does not match. No id is all zero.
  const std::array not_alone = {OperationId(), ids.front()};
  append_list(ids.size() == 1 ? std::span<const OperationId>(not_alone) : std::span<const OperationId>(ids));
  if (!owners.empty()) {
    text_.append("AND(nonce IN");
    append_list(std::span<const Nonce>(owners));
    if (!claims.empty()) {
      text_.append("OR id IN");
      append_list(std::span<const OperationId>(claims));
    }
    text_.push_back(')');
  }
  text_.append(" ORDER BY id ").append(for_update(held));
}

void Script::see(std::span<const OperationId> ids) {
  add(Part::seen, "SELECT ");
  text_.append(columns).append(" FROM once_operations FORCE INDEX(PRIMARY) WHERE id IN");
  append_list(ids);
}

void Script::append_insert(std::span<const NewRow> rows, std::string_view fence) {
  add(Part::change, "INSERT INTO once_operations(");
  text_.append(columns).append(",sweep_at,tenant,route)VALUES");
  for (const NewRow& row : rows) {
    if (&row != rows.data()) text_.push_back(',');
    append_values(text_, row, fence.empty() ? fmt::to_string(fence_of(row)) : fence);
  }
}

void Script::insert(std::span<const NewRow> rows, std::int64_t until) {
  append_insert(rows, fmt::format("IF({}<={},{},NULL)", clock_us, until, clock_us));
  // Does not update the id: Vitess refuses every update of its sharding column, even to the same value.
  text_.append("ON DUPLICATE KEY UPDATE state=state");
}

void Script::append_seen(const OperationId& id, const SeenRow& was) {
  text_.append(" WHERE id=");
  append_hex_literal(text_, id);
  text_.append(" AND nonce=");
  append_hex_literal(text_, was.nonce);
  fmt::format_to(std::back_inserter(text_), " AND fence={} AND state={}", static_cast<std::uint64_t>(was.fence),
                 static_cast<unsigned>(was.state));
}

void Script::renew(const Row& row, const SeenRow& was) {
  add(Part::change, fmt::format("UPDATE once_operations SET lease_until={}", ms(row.record.lease_until)));
  append_seen(row.id, was);
}

// The rows exist and are locked. The state is assigned last, because the other assignments depend on it.
void Script::finish(std::span<const NewRow> rows) {
  append_insert(rows, {});
  const auto if_ours = [this](std::string_view column) {
    fmt::format_to(std::back_inserter(text_),
                   "{}=IF(nonce=VALUES(nonce)AND fence=VALUES(fence)AND state IN(0,3),VALUES({}),{})", column, column,
                   column);
  };
  text_.append("ON DUPLICATE KEY UPDATE ");
  for (const std::string_view column : {"body_kept", "chunks_fence", "expires_at", "sweep_at", "outcome"}) {
    if_ours(column);
    text_.push_back(',');
  }
  if_ours("state");
}

void Script::replace(const NewRow& written, const SeenRow& was) {
  const Record& record = written.row.record;
  add(Part::change,
      fmt::format(
          "UPDATE once_operations SET state={},body_kept={},chunks_fence={},attempt={},fence={},started_at={},lease_"
          "until={},expires_at={},sweep_at={},ttl={},tombstone={},previous_state={},previous_started_at={}",
          static_cast<unsigned>(record.state), record.body_kept == BodyKept::yes ? 1 : 0, chunks_fence_of(written),
          static_cast<std::uint32_t>(record.attempt), static_cast<std::uint64_t>(record.fence), ms(record.started_at),
          ms(record.lease_until), ms(record.expires_at), ms(written.sweep_at.value_or(record.expires_at)),
          written.row.ttl.count(), written.row.tombstone.count(), static_cast<unsigned>(record.previous_state),
          ms(record.previous_started_at)));
  text_.append(",fingerprint=");
  append_hex_literal(text_, record.fingerprint);
  text_.append(",nonce=");
  append_hex_literal(text_, record.nonce);
  text_.append(",outcome=");
  append_outcome(text_, record);
  for (const auto& [column, value] : {std::pair("tenant", written.tenant), {"route", written.route}}) {
    if (value.empty()) continue;
    text_.append(",").append(column).append("='");
    append_escaped(text_, label(value));
    text_.push_back('\'');
  }
  append_seen(written.row.id, was);
}

void Script::remove(const OperationId& id, const SeenRow& was) {
  add(Part::change, "DELETE FROM once_operations");
  append_seen(id, was);
}

// Updates the first chunk, which locks it: later statements see whether another transaction that held it has committed.
void Script::hold_chunks(const OperationId& id, const Nonce& nonce) {
  add(Part::change, "UPDATE once_chunks SET repeated=repeated+1 WHERE id=");
  append_hex_literal(text_, id);
  text_.append(" AND nonce=");
  append_hex_literal(text_, nonce);
  text_.append(" AND number=0");
}

void Script::append(const Chunk& chunk, std::string_view bytes) {
  add(Part::change, "INSERT INTO once_chunks(id,nonce,number,size,bytes)SELECT id,nonce,");
  fmt::format_to(std::back_inserter(text_), "{},{},_binary'", chunk.number, bytes.size());
  append_escaped(text_, bytes);
  text_.append("' FROM once_operations WHERE id=");
  append_hex_literal(text_, chunk.id);
  text_.append(" AND nonce=");
  append_hex_literal(text_, chunk.nonce);
  text_.append(" AND state=0 ON DUPLICATE KEY UPDATE repeated=repeated+1");
}

// Reads the sizes first, which is cheap, and then the bytes of those that fit.
void Script::see_chunks(const OperationId& id, std::uint32_t first, std::size_t most_bytes) {
  std::string operation;
  append_hex_literal(operation, id);
  add(Part::chunks, "SELECT STRAIGHT_JOIN c.id,c.nonce,c.number,c.bytes FROM(SELECT id,nonce,number,SUM(size)OVER(");
  fmt::format_to(std::back_inserter(text_),
                 "ORDER BY number)AS total FROM once_chunks FORCE INDEX(PRIMARY) WHERE id={0} AND nonce=(SELECT nonce "
                 "FROM once_operations WHERE id={0})AND number>={1})AS s JOIN once_chunks AS c FORCE INDEX(PRIMARY) ON "
                 "c.id=s.id AND c.nonce=s.nonce AND c.number=s.number WHERE s.number={1} OR s.total<={2} ORDER BY "
                 "s.number",
                 operation, first, most_bytes);
}

// Walks from stream to stream, because there are far fewer streams than chunks. Checks the first streams, and as many
// from a random one on: bodies that stay in chunks may be too many for one statement.
void Script::see_orphans(std::size_t limit) {
  add(Part::chunks,
      "SELECT STRAIGHT_JOIN c.id,c.nonce,c.number FROM((SELECT DISTINCT id,nonce FROM once_chunks FORCE "
      "INDEX(PRIMARY)LIMIT "
      "10000)UNION(SELECT DISTINCT id,nonce FROM once_chunks FORCE INDEX(PRIMARY) WHERE "
      "id>=UNHEX(MD5(UTC_TIMESTAMP(6)))LIMIT 10000))AS s LEFT JOIN once_operations AS o FORCE INDEX(PRIMARY) ON "
      "o.id=s.id AND o.nonce=s.nonce AND ");
  text_.append(has_chunks)
      .append("JOIN once_chunks AS c FORCE INDEX(PRIMARY) ON c.id=s.id AND c.nonce=s.nonce WHERE o.id IS NULL LIMIT ");
  text_.append(fmt::to_string(limit));
}

// One by one, like remove_expired().
void Script::remove_chunks(std::span<const Chunk> chunks) {
  for (const Chunk& chunk : chunks) {
    add(Part::change, "DELETE FROM once_chunks WHERE id=");
    append_hex_literal(text_, chunk.id);
    text_.append(" AND nonce=");
    append_hex_literal(text_, chunk.nonce);
    text_.append(" AND number=").append(fmt::to_string(chunk.number));
  }
}

void Script::write_nothing() {
  add(Part::control, "SET @once_nothing=RANDOM_BYTES(32)");
  add(Part::change,
      "INSERT INTO once_operations(id,state,attempt,fence,fingerprint,nonce,started_at,lease_until,expires_at,ttl)"
      "VALUES(@once_nothing,4,0,0,'','',0,0,0,0)");
  add(Part::change, "DELETE FROM once_operations WHERE id=@once_nothing");
}

void Script::see_page(std::string_view after, std::size_t limit) {
  add(Part::seen, "SELECT ");
  text_.append(columns.substr(0, columns.rfind(','))).append(",NULL,tenant,route,LENGTH(outcome)");
  text_.append(" FROM once_operations FORCE INDEX(PRIMARY) WHERE id>x'");
  append_hex(text_, after);
  text_.append(fmt::format("' ORDER BY id LIMIT {}", limit));
}

void Script::count_page(Time now, std::string_view after, std::size_t limit) {
  add(Part::seen, fmt::format("SELECT shown,COUNT(*),MAX(id) FROM(SELECT id,IF({},IF({},9,4),IF(state=0 AND "
                              "lease_until<={},{},state)) AS shown",
                              has_expired(now), is_forgotten(now), ms(now), lapsed_at));
  text_.append(" FROM once_operations FORCE INDEX(PRIMARY) WHERE id>x'");
  append_hex(text_, after);
  text_.append(fmt::format("' ORDER BY id LIMIT {}) AS part GROUP BY shown", limit));
}

// Forces the index, because the server may believe that the table is small.
void Script::append_place(State state, const Place& after, std::size_t limit) {
  text_.append(
      fmt::format(" FROM once_operations FORCE INDEX(once_operations_state) WHERE state={} AND started_at>={} "
                  "AND(started_at>{} OR id>x'",
                  static_cast<unsigned>(state), after.started_at, after.started_at));
  append_hex(text_, after.id);
  text_.append(fmt::format("')ORDER BY started_at,id LIMIT {}", limit));
}

void Script::see_state_page(State state, const Place& after, std::size_t limit) {
  add(Part::seen, "SELECT ");
  text_.append(columns.substr(0, columns.rfind(','))).append(",NULL,tenant,route,LENGTH(outcome)");
  append_place(state, after, limit);
}

void Script::count_state_page(Time now, State state, const Place& after, std::size_t limit) {
  add(Part::seen,
      fmt::format("SELECT shown,COUNT(*),MAX(place) FROM(SELECT CONCAT(LPAD(started_at,20,'0'),LOWER(HEX(id)))AS "
                  "place,IF({},IF({},9,4),IF(state=0 AND lease_until<={},{},state)) AS shown",
                  has_expired(now), is_forgotten(now), ms(now), lapsed_at));
  append_place(state, after, limit);
  text_.append(") AS part GROUP BY shown");
}

void Script::estimate_all() {
  add(Part::seen, "EXPLAIN SELECT state FROM once_operations FORCE INDEX(once_operations_state)");
}

void Script::estimate(State state) {
  add(Part::seen,
      fmt::format("EXPLAIN SELECT state FROM once_operations FORCE INDEX(once_operations_state) WHERE state={}",
                  static_cast<unsigned>(state)));
}

void Script::see_expired(Time now, std::size_t limit) {
  add(Part::seen, "SELECT id FROM once_operations FORCE INDEX(once_operations_sweep) WHERE ");
  text_.append(fmt::format("sweep_at<={} AND ", ms(now))).append(has_expired(now));
  text_.append(fmt::format(" ORDER BY sweep_at LIMIT {}", limit));
}

void Script::lock_expired(Time now, std::span<const OperationId> ids, Held held) {
  add(Part::locked,
      fmt::format("SELECT id,{} FROM once_operations FORCE INDEX(PRIMARY) WHERE id IN", is_forgotten(now)));
  append_list(ids);
  text_.append("AND ").append(has_expired(now)).append(" ORDER BY id ").append(for_update(held));
}

// One by one: a DELETE of several ids reads and locks the whole table if that is small, and accepts no hint.
void Script::remove_expired(Time now, std::span<const OperationId> ids) {
  for (const OperationId& id : ids) {
    add(Part::change, "DELETE FROM once_operations WHERE id=");
    append_hex_literal(text_, id);
    text_.append(" AND ").append(has_expired(now)).append(" AND ").append(is_forgotten(now));
  }
}

void Script::bury_expired(Time now, std::span<const OperationId> ids) {
  for (const OperationId& id : ids) {
    add(Part::change,
        "UPDATE once_operations SET state=4,outcome=NULL,"
        "sweep_at=IF(tombstone>9223372036854775807-expires_at,9223372036854775807,expires_at+tombstone) WHERE id=");
    append_hex_literal(text_, id);
    text_.append(" AND ").append(has_expired(now));
  }
}

Place place_of(std::string_view text) {
  constexpr std::size_t digits = 20;
  const std::string_view number = text.substr(0, std::min(text.size(), digits));
  return {.started_at = parse_number(number).value_or(0), .id = from_hex(text.substr(number.size())).value_or("")};
}

// MySQL's EXPLAIN has two columns more than MariaDB's, one of them before this.
std::uint64_t rows_of(const RowView& row) {
  constexpr std::size_t mariadb_columns = 10;
  return parse_number(row[row.size() == mariadb_columns ? 8 : 9].value_or("")).value_or(0);
}

SeenRow seen_as(const Record& record) {
  return {.nonce = record.nonce, .fence = record.fence, .state = record.state};
}

std::size_t escaped_size(std::string_view value) {
  const auto needs_two = [](char byte) { return byte == '\0' || byte == '\'' || byte == '\\'; };
  return value.size() + static_cast<std::size_t>(std::ranges::count_if(value, needs_two));
}

std::string label(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (out.size() + std::max<std::size_t>(length, 1) > longest_label) break;
    out.append(length == 0 ? "?" : text.substr(0, length));
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

}  // namespace once::mysql
