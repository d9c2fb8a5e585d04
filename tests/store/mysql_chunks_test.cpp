// What is special about chunks in MySQL: packets, and how statements are planned. sql/chunks.hpp has the rest.
#include "tests/store/mysql_fixture.hpp"

namespace once::mysql_test {
namespace mysql_chunks_test {

class MysqlChunks : public MysqlTest {};

TEST_F(MysqlChunks, that_no_statement_can_carry_are_refused_as_too_large) {
  const Owner owner = claimed();
  const auto limit = std::stoull(other().value("SELECT @@max_allowed_packet"));
  const Op op = run(append_op(owner, 0, std::string(limit, 'x')));
  EXPECT_EQ(op.status, OpStatus::failed);
  EXPECT_EQ(op.fault, StoreFault::full);
  EXPECT_EQ(append(owner, 0, std::string(limit / 4, '\'')), OpStatus::done);
}

// Neither reads all chunks of all responses.
TEST_F(MysqlChunks, are_found_by_their_key) {
  const Owner owner = streaming(1);
  for (int i = 0; i < 20; ++i) {
    const Owner filler = claimed();
    ASSERT_EQ(
        other().run(fmt::format("INSERT INTO once_chunks (id, nonce, number, size, bytes) VALUES (0x{}, 0x{}, 0, "
                                "1, 'x'), (0x{}, 0x{}, 1, 1, 'x')",
                                to_hex(filler.id), to_hex(filler.nonce), to_hex(filler.id), to_hex(filler.nonce))),
        0U);
  }
  mysql::Script script;
  script.see_chunks(owner.id, 0, 1000);
  ASSERT_EQ(other().run("EXPLAIN " + script.text()), 0U);
  for (const Cells& row : other().rows()) {
    const std::string table = row.at(2).value_or("");
    if (table != "once_chunks" && table != "c") continue;
    EXPECT_NE(row.at(3), "ALL") << table;
    EXPECT_NE(row.at(3), "index") << table;
    EXPECT_EQ(row.at(5), "PRIMARY") << table;
  }
}

}  // namespace mysql_chunks_test
}  // namespace once::mysql_test
