#include "store/mysql/sweep.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/text.hpp"
#include "store/mysql/statements.hpp"

namespace once::mysql {

namespace {

// The limit per transaction: MariaDB plans an IN of a thousand or more as a join.
constexpr std::size_t most_ids = 500;

using Ids = std::vector<OperationId>;

// The clock's answer, if requested, and the returned ids.
struct Answer {
  Time now{};
  Ids ids;
  Ids remembered;  // locked ones that must be remembered
};

std::expected<Answer, SqlError> ask(Connection& connection, const Script& script) {
  Answer answer;
  const auto take = [&](std::size_t statement, const RowView& row) {
    const std::string_view value = row[0].value_or("");
    if (script.part(statement) == Script::Part::clock) {
      answer.now = Time(Duration(static_cast<Duration::rep>(parse_number(value).value_or(0) / 1000)));
    } else if (OperationId id; value.size() == id.bytes.size()) {
      std::memcpy(id.bytes.data(), value.data(), value.size());
      const bool forgotten = row.size() < 2 || row[1] == "1";
      (forgotten ? answer.ids : answer.remembered).push_back(id);
    }
  };
  const auto ran = connection.run(script.text(), take, script.size());
  if (!ran) return std::unexpected(ran.error());
  return answer;
}

// Locks those of `ids` that are free, in a transaction that stays open.
std::expected<Answer, SqlError> lock_free(Connection& connection, Time now, Ids ids) {
  bool one_by_one = false;
  while (!ids.empty()) {
    Script lock;
    lock.begin();
    if (one_by_one) {
      for (const OperationId& id : ids) lock.lock_expired(now, {&id, 1}, connection.held());
    } else {
      lock.lock_expired(now, ids, connection.held());
    }
    auto locked = ask(connection, lock);
    if (locked || !refused_lock(locked.error(), connection.held())) return locked;
    if (const auto undone = connection.run("ROLLBACK"); !undone) return std::unexpected(undone.error());
    const std::size_t refused = locked.error().statement;
    if (one_by_one && refused > 0) ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(refused - 1));
    one_by_one = true;
  }
  // Nothing is locked, so no transaction needs to be open.
  return Answer();
}

struct Some {
  std::size_t removed = 0;
  std::size_t held = 0;  // by other transactions
  More more = More::no;
};

// `passed_by` is the known number of oldest rows that others hold.
std::expected<Some, SqlError> sweep_some(Connection& connection, std::size_t limit, std::size_t passed_by) {
  Script clock;
  clock.ask_clock();
  const auto time = ask(connection, clock);
  if (!time) return std::unexpected(time.error());
  Script look;
  look.see_expired(time->now, limit + passed_by);
  auto found = ask(connection, look);
  if (!found) return std::unexpected(found.error());
  if (found->ids.empty()) return Some{};
  std::ranges::sort(found->ids);
  auto locked = lock_free(connection, time->now, found->ids);
  if (!locked) return std::unexpected(locked.error());
  const std::size_t ours = locked->ids.size() + locked->remembered.size();
  const std::size_t held = found->ids.size() - ours;
  locked->ids.resize(std::min(locked->ids.size(), limit));
  Script remove;
  remove.bury_expired(time->now, locked->remembered);
  remove.remove_expired(time->now, locked->ids);
  remove.commit();
  if (const auto removed = ask(connection, remove); !removed) return std::unexpected(removed.error());
  // If others hold all rows that were found, another search at once would find the same rows.
  const bool more = found->ids.size() == limit + passed_by && ours > 0;
  return Some{.removed = locked->ids.size(), .held = held, .more = more ? More::yes : More::no};
}

// Removes obsolete chunks of responses; returns how many.
std::expected<std::size_t, SqlError> remove_orphans(Connection& connection, std::size_t limit) {
  std::size_t removed = 0;
  while (removed < limit) {
    Script look;
    const std::size_t wanted = std::min(limit - removed, most_ids);
    look.see_orphans(wanted);
    std::vector<Chunk> orphans;
    const auto take = [&](std::size_t, const RowView& row) {
      if (const auto chunk = read_chunk(row)) orphans.push_back(*chunk);
    };
    if (const auto ran = connection.run(look.text(), take, look.size()); !ran) return std::unexpected(ran.error());
    if (orphans.empty()) break;
    Script remove;
    remove.begin();
    remove.remove_chunks(orphans);
    remove.commit();
    if (const auto ran = connection.run(remove.text(), {}, remove.size()); !ran) return std::unexpected(ran.error());
    removed += orphans.size();
    if (orphans.size() < wanted) break;
  }
  return removed;
}

}  // namespace

std::expected<Swept, SqlError> sweep(Connection& connection, std::size_t limit) {
  Swept total{.more = More::yes};
  std::size_t held = 0;
  while (total.more == More::yes && total.removed < limit) {
    const auto some = sweep_some(connection, std::min(limit - total.removed, most_ids), held);
    if (!some) return std::unexpected(some.error());
    total.removed += some->removed;
    total.more = some->more;
    held = some->held;
  }
  const auto chunks = remove_orphans(connection, limit);
  if (!chunks) return std::unexpected(chunks.error());
  if (*chunks >= limit) total.more = More::yes;
  return total;
}

}  // namespace once::mysql
