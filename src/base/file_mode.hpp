// Whether a file with a secret can be read by users that it is not for.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <span>
#include <string>
#include <vector>

#include "base/layers.hpp"

namespace once::base {

// The user of a process.
struct FileReader {
  uid_t user;
  std::vector<gid_t> groups;

  static FileReader of_this_process();
};

// What to run so that no others can read the file, and its service still can; empty: nothing. A service gets its
// secrets from a group: a file of another user is for the groups of the reader. Root is not the one that serves: what
// it looks at is for the group of the file, unless that is root's.
std::string how_to_protect(const std::string& path, const struct stat& status, const FileReader& reader);

}  // namespace once::base
