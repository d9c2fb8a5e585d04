#include "store/journal/system_disk.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temporary_folder.hpp"

namespace once::store {
namespace system_disk_test {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

class SystemDiskTest : public testing::Test {
 protected:
  TemporaryFolder above_;
  std::string folder_ = above_.path() + "/deep/journal";
  SystemDisk disk_{folder_};
};

TEST_F(SystemDiskTest, the_folder_is_made_and_is_ours_alone) {
  ASSERT_TRUE(disk_.lock().has_value());
  struct stat status{};
  ASSERT_EQ(::stat(folder_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  ASSERT_TRUE(disk_.create("a").has_value());
  ASSERT_EQ(::stat((folder_ + "/a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(SystemDiskTest, what_root_makes_is_the_folders_owners) {
  constexpr uid_t service = 12345;
  std::filesystem::create_directories(folder_);
  const bool root = ::geteuid() == 0;
  ASSERT_TRUE(!root || ::chown(folder_.c_str(), service, service) == 0);
  ASSERT_TRUE(disk_.lock().has_value());
  ASSERT_TRUE(disk_.create("a").has_value());
  for (const char* name : {"/lock", "/a"}) {
    struct stat status{};
    ASSERT_EQ(::stat((folder_ + name).c_str(), &status), 0);
    EXPECT_EQ(status.st_uid, root ? service : ::geteuid()) << name;
  }
}

TEST_F(SystemDiskTest, a_second_one_is_told_who_has_the_lock) {
  ASSERT_TRUE(disk_.lock().has_value());
  SystemDisk second(folder_);
  const auto locked = second.lock();
  ASSERT_FALSE(locked.has_value());
  EXPECT_EQ(locked.error().fault, DiskFault::in_use);
  EXPECT_THAT(locked.error().detail, HasSubstr(folder_));
  EXPECT_THAT(locked.error().detail, HasSubstr("process " + std::to_string(::getpid())));
}

TEST_F(SystemDiskTest, a_lock_to_read_writes_nothing) {
  EXPECT_FALSE(disk_.lock_to_read().has_value());
  EXPECT_FALSE(std::filesystem::exists(folder_)) << "it would be made for nothing";
  std::filesystem::create_directories(folder_);
  {
    SystemDisk reader(folder_);
    ASSERT_TRUE(reader.lock_to_read().has_value());
    EXPECT_TRUE(std::filesystem::is_empty(folder_));
    EXPECT_EQ(disk_.lock().error().fault, DiskFault::in_use);
  }
  SystemDisk owner(folder_);
  ASSERT_TRUE(owner.lock().has_value());
  EXPECT_THAT(disk_.lock_to_read().error().detail, HasSubstr("process " + std::to_string(::getpid())));
}

TEST_F(SystemDiskTest, a_note_is_left_for_those_who_read_until_the_next_lock) {
  {
    SystemDisk owner(folder_);
    ASSERT_TRUE(owner.lock().has_value());
    ASSERT_TRUE(owner.leave_note("0000000007.segment 4096\n").has_value());
  }
  ASSERT_TRUE(disk_.lock_to_read().has_value());
  EXPECT_EQ(disk_.note(), "0000000007.segment 4096\n");
}

TEST_F(SystemDiskTest, the_lock_holds_when_its_file_is_deleted) {
  ASSERT_TRUE(disk_.lock().has_value());
  std::filesystem::remove(folder_ + "/lock");
  SystemDisk second(folder_);
  const auto locked = second.lock();
  ASSERT_FALSE(locked.has_value());
  EXPECT_EQ(locked.error().fault, DiskFault::in_use);
  EXPECT_THAT(locked.error().detail, HasSubstr(folder_ + " is in use by another process"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/lock")) << "it would hide who has it";
}

// As versions before this one lock it.
TEST_F(SystemDiskTest, one_that_locks_the_file_alone_is_kept_out_and_keeps_others_out) {
  const auto lock_file_alone = [this] {
    Descriptor file(::open((folder_ + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    return ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 ? std::move(file) : Descriptor();
  };
  {
    SystemDisk newer(folder_);
    ASSERT_TRUE(newer.lock().has_value());
    EXPECT_FALSE(lock_file_alone().open());
  }
  const Descriptor older = lock_file_alone();
  EXPECT_TRUE(older.open());
  EXPECT_EQ(SystemDisk(folder_).lock().error().fault, DiskFault::in_use);
}

TEST_F(SystemDiskTest, it_stays_in_the_folder_that_was_locked) {
  ASSERT_TRUE(disk_.lock().has_value());
  ASSERT_TRUE(disk_.create("a").has_value());
  std::filesystem::rename(folder_, above_.path() + "/moved");
  SystemDisk other(folder_);
  ASSERT_TRUE(other.lock().has_value());
  ASSERT_TRUE(other.create("b").has_value());
  ASSERT_TRUE(disk_.create("c").has_value());
  ASSERT_TRUE(disk_.rename("c", "b").has_value());
  ASSERT_TRUE(disk_.remove("lock").has_value());
  ASSERT_TRUE(disk_.open("b", Access::read).has_value());
  EXPECT_THAT(*disk_.list(), UnorderedElementsAre("a", "b"));
  EXPECT_THAT(*other.list(), UnorderedElementsAre("b", "lock"));
}

TEST_F(SystemDiskTest, what_is_written_is_read) {
  ASSERT_TRUE(disk_.lock().has_value());
  auto file = disk_.create("a");
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE((*file)->write_at(10, "hello").has_value());
  ASSERT_TRUE((*file)->sync().has_value());
  EXPECT_EQ(*(*file)->size(), 15U);
  std::string into(20, 'x');
  EXPECT_EQ(*(*file)->read_at(8, into), 7U) << "fewer only at the end of the file";
  EXPECT_EQ(into.substr(0, 7), std::string("\0\0hello", 7));
  EXPECT_EQ(*(*file)->read_at(100, into), 0U);
  ASSERT_TRUE((*file)->truncate(12).has_value());
  auto again = disk_.open("a", Access::read);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(*(*again)->size(), 12U);
  EXPECT_FALSE((*again)->write_at(0, "x").has_value()) << "it was opened to be read";
}

TEST_F(SystemDiskTest, names_come_and_go) {
  ASSERT_TRUE(disk_.lock().has_value());
  ASSERT_TRUE((*disk_.create("a"))->write_at(0, "old").has_value());
  ASSERT_TRUE(disk_.create("b").has_value());
  EXPECT_EQ(*(*disk_.create("a"))->size(), 0U) << "whatever had the name is gone";
  ASSERT_TRUE(disk_.rename("b", "c").has_value());
  ASSERT_TRUE(disk_.sync_names().has_value());
  EXPECT_THAT(*disk_.list(), UnorderedElementsAre("a", "c", "lock"));
  ASSERT_TRUE(disk_.remove("a").has_value());
  EXPECT_TRUE(disk_.remove("a").has_value()) << "gone is gone";
  EXPECT_THAT(*disk_.list(), UnorderedElementsAre("c", "lock"));
}

TEST_F(SystemDiskTest, errors_name_the_path) {
  EXPECT_THAT(disk_.list().error().detail, HasSubstr(folder_));
  ASSERT_TRUE(disk_.lock().has_value());
  const auto opened = disk_.open("missing", Access::write);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().fault, DiskFault::failed);
  EXPECT_EQ(opened.error().detail, "cannot open " + folder_ + "/missing: No such file or directory");
  EXPECT_THAT(disk_.rename("missing", "x").error().detail, HasSubstr(folder_ + "/missing"));
  EXPECT_THAT(disk_.create("no/such").error().detail, HasSubstr(folder_ + "/no/such"));
  SystemDisk nowhere("/proc/once");
  EXPECT_THAT(nowhere.lock().error().detail, HasSubstr("/proc/once"));
}

// Every descriptor of the process in use: nothing is broken, and there may be one again later.
TEST_F(SystemDiskTest, without_descriptors_there_is_no_space_and_names_can_still_be_synced) {
  ASSERT_TRUE(disk_.lock().has_value());
  // The sanitizers look at a type the first time they meet it, and need a descriptor for that.
  ASSERT_FALSE(disk_.open("missing", Access::read).has_value());
  struct rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const struct rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto made = disk_.create("a");
  const auto synced = disk_.sync_names();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().fault, DiskFault::no_space);
  EXPECT_TRUE(synced.has_value());
}

}  // namespace system_disk_test
}  // namespace once::store
