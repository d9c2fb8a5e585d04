/* The functions of libonce, looked up when the library is loaded. The addon is not linked with it, so that it can be
 * loaded without the library, and so that the library uses its own OpenSSL and not the one that Node's executable
 * exports. */
#ifndef ONCE_NODE_LIBRARY_H
#define ONCE_NODE_LIBRARY_H

#include "once.h"

#define ONCE_FUNCTIONS(F) \
  F(once_last_error)      \
  F(once_status_name)     \
  F(once_version)         \
  F(once_abi_version)     \
  F(once_open)            \
  F(once_stop)            \
  F(once_free)            \
  F(once_needs_body)      \
  F(once_begin)           \
  F(once_cancel)          \
  F(once_finish)          \
  F(once_abandon)         \
  F(once_release)         \
  F(once_claim_lost)      \
  F(once_claim_free)      \
  F(once_claim_work)      \
  F(once_complete)        \
  F(once_fail)            \
  F(once_look)            \
  F(once_recorded)        \
  F(once_compute_key)     \
  F(once_poll_fd)         \
  F(once_drain)           \
  F(once_event_free)      \
  F(once_sweep)           \
  F(once_metrics)         \
  F(once_text_free)

#define ONCE_MEMBER(name) __typeof__(&name) name;
struct once_library {
  ONCE_FUNCTIONS(ONCE_MEMBER)
};
#undef ONCE_MEMBER

/* Valid after once_library_load() returned NULL. */
extern struct once_library once_lib;

/* Loads the library, once for the process. Returns NULL, or why it could not be loaded. Any thread. */
const char* once_library_load(const char* path);

#endif
