#include "store/mysql/sweep.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/text.hpp"
#include "store/mysql/statements.hpp"

namespace once::mysql {

namespace {

// In one transaction; MariaDB plans an IN of a thousand and more as a join.
constexpr std::size_t most_ids = 500;

using Ids = std::vector<OperationId>;

// The clock's answer, if one was asked for, and the ids that came.
struct Answer {
  Time now{};
  Ids ids;
};

std::expected<Answer, SqlError> ask(Connection& connection, const Script& script) {
  Answer answer;
  const auto ran = connection.run(script.text(), [&](std::size_t statement, const RowView& row) {
    const std::string_view value = row[0].value_or("");
    if (script.part(statement) == Script::Part::clock) {
      answer.now = Time(Duration(static_cast<Duration::rep>(parse_number(value).value_or(0) / 1000)));
    } else if (OperationId id; value.size() == id.bytes.size()) {
      std::memcpy(id.bytes.data(), value.data(), value.size());
      answer.ids.push_back(id);
    }
  });
  if (!ran) return std::unexpected(ran.error());
  return answer;
}

std::expected<Swept, SqlError> sweep_some(Connection& connection, std::size_t limit) {
  Script clock;
  clock.ask_clock();
  const auto time = ask(connection, clock);
  if (!time) return std::unexpected(time.error());
  Script look;
  look.see_expired(time->now, limit);
  auto found = ask(connection, look);
  if (!found) return std::unexpected(found.error());
  if (found->ids.empty()) return Swept{};
  std::ranges::sort(found->ids);
  Script lock;
  lock.begin();
  lock.lock_expired(time->now, found->ids);
  const auto locked = ask(connection, lock);
  if (!locked) return std::unexpected(locked.error());
  Script remove;
  if (!locked->ids.empty()) remove.remove(locked->ids);
  remove.commit();
  if (const auto removed = ask(connection, remove); !removed) return std::unexpected(removed.error());
  // When all that was found is held by others there is no use in looking again at once.
  const bool more = found->ids.size() == limit && !locked->ids.empty();
  return Swept{.removed = locked->ids.size(), .more = more ? More::yes : More::no};
}

}  // namespace

std::expected<Swept, SqlError> sweep(Connection& connection, std::size_t limit) {
  Swept total{.more = More::yes};
  while (total.more == More::yes && total.removed < limit) {
    const auto some = sweep_some(connection, std::min<std::size_t>(limit - total.removed, most_ids));
    if (!some) return some;
    total.removed += some->removed;
    total.more = some->more;
  }
  return total;
}

}  // namespace once::mysql
