#include "store/mysql/connector.hpp"

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/text.hpp"
#include "store/mysql/schema.hpp"

namespace once::mysql {

namespace {

constexpr const char* how_to_apply = "run `once schema mysql --apply URL` with the store's URL";

Error wrong_schema(std::string detail) {
  return {.source = ErrorSource::store, .retryable = Retryable::no, .detail = std::move(detail)};
}

Result<void> check_schema(Connection& connection) {
  std::optional<std::uint64_t> version;
  const auto ran = connection.run("SELECT version FROM once_schema", [&](std::size_t, const RowView& row) {
    version = parse_number(row[0].value_or(""));
  });
  if (!ran && ran.error().number != sql_error::no_such_table) {
    return std::unexpected(
        Error{.source = ErrorSource::store, .retryable = Retryable::yes, .detail = ran.error().detail});
  }
  if (!version)
    return std::unexpected(wrong_schema(fmt::format("the database has no schema of Once: {}", how_to_apply)));
  if (*version < schema_version) {
    return std::unexpected(wrong_schema(fmt::format("the database's schema has version {}, this program needs {}: {}",
                                                    *version, schema_version, how_to_apply)));
  }
  if (*version > schema_version) {
    return std::unexpected(wrong_schema(fmt::format(
        "the database's schema has version {}, this program knows {}: use a newer one", *version, schema_version)));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Connection>> Connector::connect() {
  const std::size_t first = first_.load(std::memory_order_relaxed);
  std::optional<Error> told;  // the first that does not mend itself, or else the last
  bool may_pass = false;
  for (std::size_t i = 0; i < target_.hosts.size(); ++i) {
    const std::size_t at = (first + i) % target_.hosts.size();
    auto connection = Connection::open(target_, target_.hosts[at], settings_);
    Result<void> usable =
        connection ? check_schema(**connection) : Result<void>(std::unexpected(std::move(connection.error())));
    if (usable) {
      first_.store(at, std::memory_order_relaxed);
      max_packet_.store((*connection)->max_packet(), std::memory_order_relaxed);
      return connection;
    }
    may_pass = may_pass || usable.error().retryable == Retryable::yes;
    if (!told || told->retryable == Retryable::yes) told = std::move(usable.error());
  }
  ONCE_ASSERT(told.has_value());
  told->retryable = may_pass ? Retryable::yes : Retryable::no;
  return std::unexpected(*std::move(told));
}

void Connector::avoid(const Connection& connection) {
  const std::size_t first = first_.load(std::memory_order_relaxed);
  if (target_.hosts[first] == connection.host()) {
    first_.store((first + 1) % target_.hosts.size(), std::memory_order_relaxed);
  }
}

}  // namespace once::mysql
