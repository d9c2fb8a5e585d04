// Whether a file that holds a secret can be read by other users.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <span>
#include <string>
#include <vector>

#include "base/layers.hpp"

namespace once::base {

// The user and groups of a process.
struct FileReader {
  uid_t user;
  std::vector<gid_t> groups;

  static FileReader of_this_process();
};

// The shell command that makes the file unreadable for others but readable for its service; empty: none is needed.
// Services get secrets through a group, so a file of another user is given to the reader's group. Root is not the
// service: for root, the file's own group is kept unless that is root's.
std::string how_to_protect(const std::string& path, const struct stat& status, const FileReader& reader);

}  // namespace once::base
