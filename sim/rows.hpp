// The records of a simulated server by id, and the effect of its statements or scripts on them, one operation at a
// time. The models of the servers decide which records are reachable and what happens to the answers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "store/chunk_lists.hpp"
#include "store/search.hpp"
#include "store/store.hpp"

namespace once::sim {

class Rows {
 public:
  enum class Changed : std::uint8_t { no, yes };

  Changed execute(Op& op, Time now);

  // The stored record, even if it has expired.
  const Record* find(const OperationId& id) const;
  // Stores a record from another server.
  void put(const OperationId& id, const std::optional<Record>& record, const std::vector<OutcomeBytes>& chunks = {});
  // Restarts without data. The clock continues.
  void clear();
  std::optional<Record> at(const OperationId& id) const;
  std::vector<OutcomeBytes> chunks_at(const OperationId& id) const;
  // Adds what operators see to the page.
  void list(KeyPage& page, Time now) const;

 private:
  Changed claim(Op& op, Time now);
  Changed write(Op& op, Record& record, Time now);

  std::map<OperationId, Record> records_;
  ChunkLists chunks_;
  std::uint64_t last_fence_ = 0;
};

std::unexpected<Error> server_down();

// Searches a server for operators: there are few keys, all on one page.
class RowsSearch : public Search {
 public:
  Result<KeyPage> scan(const KeyFilter& filter, std::string_view cursor, std::size_t limit) override;
  Result<KeyPage> find(const IdPrefix& prefix) override;
  Result<KeyCounts> count(std::string_view cursor) override;

 protected:
  ~RowsSearch() = default;
  virtual Result<KeyPage> all() const = 0;
};

}  // namespace once::sim
