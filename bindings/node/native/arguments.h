/* Reads the arguments of a call from JavaScript into C, in one place that owns the memory. */
#ifndef ONCE_NODE_ARGUMENTS_H
#define ONCE_NODE_ARGUMENTS_H

#include <node_api.h>
#include <stdbool.h>

#include "once.h"

enum { MOST_ARGUMENTS = 16 };

/* Strings and fields that were copied out of JavaScript; freed by arguments_free(). Most calls fit into `room`. */
struct arguments {
  napi_env env;
  napi_value given[MOST_ARGUMENTS];
  size_t count;
  bool failed; /* an argument had the wrong type; an exception is pending */
  size_t used;
  size_t block_count;
  void* blocks[32];
  char room[4096];
};

void arguments_read(struct arguments* arguments, napi_env env, napi_callback_info info);
void arguments_free(struct arguments* arguments);

/* A missing or undefined argument is empty. */
once_bytes text_argument(struct arguments* arguments, size_t index);
/* For a string whose characters are bytes, as in HTTP. */
once_bytes latin1_argument(struct arguments* arguments, size_t index);
/* A Buffer; not copied. */
once_bytes buffer_argument(struct arguments* arguments, size_t index);
double number_argument(struct arguments* arguments, size_t index);
void* external_argument(struct arguments* arguments, size_t index);

struct fields {
  once_field* list;
  size_t count;
};
/* Names and values alternate, each with a NUL after it, in one string; the next argument is the number of parts. One
 * string is much faster to read than an array. */
struct fields fields_argument(struct arguments* arguments, size_t index);
/* The same for plain texts, as UTF-8. */
struct texts {
  once_bytes* list;
  size_t count;
};
struct texts texts_argument(struct arguments* arguments, size_t index);

#endif
