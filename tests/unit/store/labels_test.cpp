#include "store/memory/labels.hpp"

#include <gtest/gtest.h>

#include "store/redis/packed.hpp"
#include "store/search.hpp"

namespace once::memory {
namespace labels_test {

Op claim_of(std::string_view tenant, std::string_view route) {
  return {.verb = Verb::claim, .tenant = tenant, .route = route};
}

TEST(Labels, are_kept_once_and_go_with_the_last_who_has_them) {
  Budget budget(1 << 20);
  Holders holders(budget);
  Labels labels(holders);
  EXPECT_EQ(labels.take(claim_of("", "")), 0U);
  const std::size_t cost = labels.cost(claim_of("acme", "/a"));
  const std::uint32_t first = labels.take(claim_of("acme", "/a"));
  EXPECT_GT(labels.bytes(), 0U);
  EXPECT_LE(labels.bytes(), cost);
  EXPECT_EQ(labels.cost(claim_of("acme", "/a")), 0U);
  EXPECT_EQ(labels.take(claim_of("acme", "/a")), first);
  const std::uint32_t other = labels.take(claim_of("acm", "e/a"));
  EXPECT_NE(other, first) << "the same bytes, cut elsewhere";
  EXPECT_EQ(labels.of(first).tenant, "acme");
  EXPECT_EQ(labels.of(first).route, "/a");
  EXPECT_EQ(labels.of(other).route, "e/a");
  labels.give_back(first);
  EXPECT_EQ(labels.of(first).tenant, "acme");
  labels.give_back(first);
  labels.give_back(other);
  EXPECT_EQ(labels.bytes(), 0U);
  EXPECT_EQ(labels.take(claim_of("new", "/b")), other) << "a number is used again";
}

TEST(RedisLabels, come_back_as_they_were_and_are_cut_to_a_byte_of_length) {
  const std::string longer(300, 'x');
  std::string packed(redis::head_size, '\0');
  packed[3] = 2;
  const redis::PackedLabels none = redis::labels_in(packed);
  EXPECT_EQ(none.size, 0U);
  const std::string labels = redis::packed_labels("acme", longer);
  const std::string whole = packed + labels + "outcome";
  const redis::PackedLabels read = redis::labels_in(whole);
  EXPECT_EQ(read.tenant, "acme");
  EXPECT_EQ(read.route, longer.substr(0, 255));
  EXPECT_EQ(read.size, labels.size());
  for (std::size_t size = 0; size < labels.size(); ++size) {
    EXPECT_LE(redis::labels_in(packed + labels.substr(0, size)).size, size);
  }
  EXPECT_EQ(redis::packed_labels("", ""), "");
}

TEST(Cursor, is_numbers_and_nothing_else) {
  EXPECT_EQ(cursor_of({3, 77}), "3.77");
  EXPECT_EQ(read_cursor("3.77", 2), (std::vector<std::uint64_t>{3, 77}));
  EXPECT_EQ(read_cursor("", 2), (std::vector<std::uint64_t>{0, 0}));
  for (const std::string_view wrong : {"3", "3.77.1", "3.x", ".", "-1.2"}) EXPECT_FALSE(read_cursor(wrong, 2)) << wrong;
}

}  // namespace labels_test
}  // namespace once::memory
