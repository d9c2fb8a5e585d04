/* Loads libonce. */
#define _GNU_SOURCE
#include "library.h"

#include <pthread.h>

#include <dlfcn.h>
#include <stdio.h>

#ifndef RTLD_DEEPBIND /* glibc has it, musl does not */
#define RTLD_DEEPBIND 0
#endif

struct once_library once_lib;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int loaded;
static char problem[512];

static const char* load(const char* path) {
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (handle == NULL) {
    snprintf(problem, sizeof problem, "%s", dlerror());
    return problem;
  }
#define ONCE_FIND(name)                                               \
  *(void**)&once_lib.name = dlsym(handle, #name);                     \
  if (once_lib.name == NULL) {                                        \
    snprintf(problem, sizeof problem, "%s has no " #name "()", path); \
    return problem;                                                   \
  }
  ONCE_FUNCTIONS(ONCE_FIND)
#undef ONCE_FIND
  if (once_lib.once_abi_version() < ONCE_ABI_VERSION) {
    snprintf(problem, sizeof problem, "%s has version %u of its interface, %u is needed", path,
             (unsigned)once_lib.once_abi_version(), (unsigned)ONCE_ABI_VERSION);
    return problem;
  }
  loaded = 1;
  return NULL;
}

const char* once_library_load(const char* path) {
  pthread_mutex_lock(&lock);
  const char* failed = loaded ? NULL : load(path);
  pthread_mutex_unlock(&lock);
  return failed;
}
