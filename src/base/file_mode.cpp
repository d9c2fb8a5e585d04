#include "base/file_mode.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace once::base {

FileReader FileReader::of_this_process() {
  FileReader reader{.user = ::geteuid(), .groups = {::getegid()}};
  const int count = ::getgroups(0, nullptr);
  std::vector<gid_t> more(static_cast<std::size_t>(std::max(count, 0)));
  const int got = ::getgroups(count, more.data());
  more.resize(static_cast<std::size_t>(std::max(got, 0)));
  reader.groups.insert(reader.groups.end(), more.begin(), more.end());
  return reader;
}

std::string how_to_protect(const std::string& path, const struct stat& status, const FileReader& reader) {
  const bool owned = status.st_uid == reader.user;
  const bool for_service = reader.user == 0 && status.st_gid != 0;
  const bool for_reader = !owned && std::ranges::find(reader.groups, status.st_gid) != reader.groups.end();
  const bool given = (status.st_mode & S_IRGRP) != 0 && (for_service || for_reader);
  const bool by_others = (status.st_mode & S_IROTH) != 0 || ((status.st_mode & S_IRGRP) != 0 && !given);
  if (!by_others) return "";
  if (given) return fmt::format("chmod 640 {}", path);
  if (owned && reader.user != 0) return fmt::format("chmod 600 {}", path);
  return fmt::format("chgrp GROUP {} && chmod 640 {}, with the group of the service", path, path);
}

}  // namespace once::base
