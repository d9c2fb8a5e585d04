// Writes to an output without waiting for a slow or hanging reader. It does not set O_NONBLOCK, because other processes
// that share the pipe or terminal, such as the shell, would be affected.
#pragma once

#include <sys/types.h>

#include <string_view>

#include "base/layers.hpp"

namespace once::base {

// Whether this is a file on disk, which is always ready and accepts any size at once.
bool is_plain_file(int descriptor);

// The part to write next: a ready pipe has room for PIPE_BUF bytes, and does not mix those with other processes'
// writes. Whole lines, unless one is longer.
std::string_view next_piece(std::string_view lines, bool plain);

// write(2) of such a piece; -1 with EAGAIN if the output has no room now.
ssize_t write_if_ready(int descriptor, std::string_view piece, bool plain);

}  // namespace once::base
