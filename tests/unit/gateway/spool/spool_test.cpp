// The spool on a real disk, with its real threads.
#include "gateway/spool/spool.hpp"

#include <atomic>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "base/offload_threads.hpp"
#include "tests/unit/support/temporary_folder.hpp"

namespace once::gateway::spool_test {

class SpoolOnDisk : public testing::Test {
 protected:
  const TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path();
  SystemSpoolDisk disk_;
};

TEST_F(SpoolOnDisk, gives_back_what_was_written_and_leaves_no_name) {
  const auto file = disk_.create(folder_);
  ASSERT_TRUE(file) << file.error().detail;
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  EXPECT_TRUE((*file)->write_at(0, "hello "));
  EXPECT_TRUE((*file)->write_at(6, "world"));
  std::string got(20, '\0');
  const auto size = (*file)->read_at(4, got);
  ASSERT_TRUE(size);
  EXPECT_EQ(got.substr(0, *size), "o world");
}

TEST_F(SpoolOnDisk, says_which_folder_is_missing) {
  const auto file = disk_.create(folder_ + "/missing");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().fault, SpoolFault::failed);
  EXPECT_EQ(file.error().detail, folder_ + "/missing: No such file or directory");
}

TEST_F(SpoolOnDisk, counts_what_all_files_take) {
  OffloadThreads threads;
  Spool spool(disk_, threads);
  EXPECT_TRUE(spool.may_take(100, 100));
  EXPECT_EQ(spool.take(60, 100), Reserved::yes);
  EXPECT_EQ(spool.take(41, 100), Reserved::no);
  EXPECT_FALSE(spool.may_take(41, 100));
  EXPECT_FALSE(spool.may_take(0, 50)) << "a smaller limit after a reload";
  EXPECT_EQ(spool.take(40, 100), Reserved::yes);
  EXPECT_EQ(spool.bytes(), 100U);
}

TEST_F(SpoolOnDisk, a_file_that_is_closed_gives_its_room_back) {
  std::atomic<std::uint64_t> left = 1;
  {
    std::unique_ptr<Spool> spool;
    {
      OffloadThreads threads;
      spool = std::make_unique<Spool>(disk_, threads);
      auto file = disk_.create(folder_);
      ASSERT_TRUE(file);
      EXPECT_EQ(spool->take(60, 100), Reserved::yes);
      spool->close(*std::move(file), 60);
      spool->close(nullptr, 0);
    }
    left = spool->bytes();
  }
  EXPECT_EQ(left, 0U);
}

}  // namespace once::gateway::spool_test
