// A log whose lines can be read, in a file without a name.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "base/log.hpp"
#include "tests/unit/support/layers.hpp"

namespace once::support {

struct LogFile {
  explicit LogFile(const Clock& clock, LogLevel level = LogLevel::debug)
      : file(::memfd_create("log", MFD_CLOEXEC)), log(clock, file.get(), level, LogFormat::json) {}

  std::string text() const {
    std::string all(std::size_t{1} << 20U, '\0');
    const ssize_t got = ::pread(file.get(), all.data(), all.size(), 0);
    all.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return all;
  }
  std::size_t count(std::string_view what) const {
    const std::string all = text();
    std::size_t times = 0;
    for (std::size_t at = all.find(what); at != std::string::npos; at = all.find(what, at + 1)) ++times;
    return times;
  }

  const Descriptor file;
  Log log;
};

}  // namespace once::support
