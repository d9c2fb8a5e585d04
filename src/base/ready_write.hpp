// Writes to an output without waiting for a slow or hanging reader. It does not set O_NONBLOCK, because other processes
// that share the pipe or terminal, such as the shell, would be affected.
#pragma once

#include <sys/types.h>

#include <string_view>

#include "base/layers.hpp"

namespace once::base {

// A file on disk: it is always ready, and takes any size at once.
bool is_plain_file(int descriptor);

// What one write may take: a pipe that is ready has room for PIPE_BUF bytes, and does not mix them with those of other
// processes. Whole lines, unless one is longer.
std::string_view next_piece(std::string_view lines, bool plain);

// write(2) of such a piece; -1 with EAGAIN if the output has no room now.
ssize_t write_if_ready(int descriptor, std::string_view piece, bool plain);

}  // namespace once::base
