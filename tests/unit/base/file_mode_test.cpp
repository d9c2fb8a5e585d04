#include "base/file_mode.hpp"

#include <gtest/gtest.h>

namespace once::base::file_mode_test {

constexpr gid_t service_group = 104;
constexpr gid_t other_group = 105;
const FileReader root{.user = 0, .groups = {0}};
const FileReader service{.user = 103, .groups = {103, service_group}};

std::string advice(const FileReader& reader, uid_t owner, gid_t group, mode_t mode) {
  struct stat status{};
  status.st_uid = owner;
  status.st_gid = group;
  status.st_mode = S_IFREG | mode;
  return how_to_protect("/f", status, reader);
}

const std::string give_to_group = "chgrp GROUP /f && chmod 640 /f, with the group of the service";

// As a package makes it; root checks it before the service runs.
TEST(FileModeTest, a_file_that_root_gave_to_the_group_of_a_service_is_right) {
  EXPECT_EQ(advice(root, 0, service_group, 0640), "");
  EXPECT_EQ(advice(service, 0, service_group, 0640), "");
  EXPECT_EQ(advice(service, 0, service_group, 0440), "");
  EXPECT_EQ(advice(root, 103, service_group, 0640), "");
}

TEST(FileModeTest, a_file_of_its_user_alone_is_right) {
  EXPECT_EQ(advice(root, 0, 0, 0600), "");
  EXPECT_EQ(advice(service, 103, 103, 0400), "");
}

TEST(FileModeTest, others_can_read_it_and_the_advice_keeps_the_service_running) {
  EXPECT_EQ(advice(root, 0, service_group, 0644), "chmod 640 /f");
  EXPECT_EQ(advice(service, 0, service_group, 0644), "chmod 640 /f");
  EXPECT_EQ(advice(root, 0, 0, 0644), give_to_group);
  EXPECT_EQ(advice(root, 0, 0, 0640), give_to_group);
  EXPECT_EQ(advice(service, 0, 0, 0604), give_to_group) << "it is read as one of the others";
  EXPECT_EQ(advice(service, 0, other_group, 0644), give_to_group);
  EXPECT_EQ(advice(service, 103, service_group, 0640), "chmod 600 /f") << "the owner needs no group";
}

}  // namespace once::base::file_mode_test
