#include "store/flat_index.hpp"

#include <map>
#include <random>

#include <gtest/gtest.h>

namespace once::store {
namespace flat_index_test {

// Few tags, so that probes are long, wrap around the end and run past other ids with the same tag.
OperationId crowded_id(std::uint32_t number) {
  OperationId id;
  const std::uint32_t tag = number % 7 == 0 ? 0xffffffffU - number % 3 : number % 64;
  std::memcpy(id.bytes.data(), &tag, sizeof tag);
  std::memcpy(id.bytes.data() + 8, &number, sizeof number);
  return id;
}

TEST(FlatIndex, finds_exactly_what_a_map_would) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    FlatIndex index;
    std::map<OperationId, FlatIndex::Number> expected;
    std::map<FlatIndex::Number, OperationId> ids;
    FlatIndex::Number next = 0;
    for (int step = 0; step < 2000; ++step) {
      const OperationId id = crowded_id(static_cast<std::uint32_t>(random()) % 200);
      const auto is_same = [&](FlatIndex::Number number) { return ids.at(number) == id; };
      const auto known = expected.find(id);
      const auto found = index.find(id, is_same);
      ASSERT_EQ(found.has_value(), known != expected.end());
      if (!found) {
        ids[next] = id;
        expected[id] = next;
        index.insert(id, next++);
        continue;
      }
      ASSERT_EQ(*found, known->second);
      if (random() % 2 == 0) continue;
      index.erase(id, *found);
      ids.erase(*found);
      expected.erase(known);
    }
    for (const auto& [id, number] : expected) {
      ASSERT_EQ(index.find(id, [&](FlatIndex::Number each) { return ids.at(each) == id; }), number);
    }
  }
}

}  // namespace flat_index_test
}  // namespace once::store
