/* Reads arguments. A mistake throws a TypeError and is remembered, so a call checks `failed` once, after all arguments. */
#include "arguments.h"

#include <stdlib.h>
#include <string.h>

void arguments_read(struct arguments* arguments, napi_env env, napi_callback_info info) {
  arguments->env = env;
  arguments->count = MOST_ARGUMENTS;
  arguments->failed = false;
  arguments->used = 0;
  arguments->block_count = 0;
  napi_get_cb_info(env, info, &arguments->count, arguments->given, NULL, NULL);
}

void arguments_free(struct arguments* arguments) {
  for (size_t i = 0; i < arguments->block_count; ++i) free(arguments->blocks[i]);
}

static void fail(struct arguments* arguments, const char* what) {
  if (!arguments->failed) napi_throw_type_error(arguments->env, NULL, what);
  arguments->failed = true;
}

static void* take(struct arguments* arguments, size_t size) {
  size = (size + 15) & ~(size_t)15;
  if (size <= sizeof arguments->room - arguments->used) {
    void* taken = arguments->room + arguments->used;
    arguments->used += size;
    return taken;
  }
  void* block = arguments->block_count < sizeof arguments->blocks / sizeof *arguments->blocks ? malloc(size) : NULL;
  if (block == NULL)
    fail(arguments, "out of memory");
  else
    arguments->blocks[arguments->block_count++] = block;
  return block;
}

static bool given(const struct arguments* arguments, size_t index) {
  if (index >= arguments->count) return false;
  napi_valuetype type = napi_undefined;
  napi_typeof(arguments->env, arguments->given[index], &type);
  return type != napi_undefined && type != napi_null;
}

typedef napi_status (*string_reader)(napi_env, napi_value, char*, size_t, size_t*);

static once_bytes string_argument(struct arguments* arguments, size_t index, string_reader read) {
  once_bytes text = {"", 0};
  if (arguments->failed || !given(arguments, index)) return text;
  size_t size = 0;
  if (read(arguments->env, arguments->given[index], NULL, 0, &size) != napi_ok) {
    fail(arguments, "a string is needed");
    return text;
  }
  char* copy = take(arguments, size + 1);
  if (copy == NULL) return text;
  read(arguments->env, arguments->given[index], copy, size + 1, &size);
  text.data = copy;
  text.size = size;
  return text;
}

once_bytes text_argument(struct arguments* arguments, size_t index) {
  return string_argument(arguments, index, napi_get_value_string_utf8);
}

once_bytes latin1_argument(struct arguments* arguments, size_t index) {
  return string_argument(arguments, index, napi_get_value_string_latin1);
}

once_bytes buffer_argument(struct arguments* arguments, size_t index) {
  once_bytes bytes = {"", 0};
  if (arguments->failed || !given(arguments, index)) return bytes;
  void* data = NULL;
  if (napi_get_buffer_info(arguments->env, arguments->given[index], &data, &bytes.size) != napi_ok) {
    fail(arguments, "a Buffer is needed");
    return bytes;
  }
  if (bytes.size > 0) bytes.data = data;
  return bytes;
}

double number_argument(struct arguments* arguments, size_t index) {
  double number = 0;
  if (arguments->failed || !given(arguments, index)) return 0;
  if (napi_get_value_double(arguments->env, arguments->given[index], &number) != napi_ok)
    fail(arguments, "a number is needed");
  return number;
}

void* external_argument(struct arguments* arguments, size_t index) {
  void* data = NULL;
  if (arguments->failed) return NULL;
  if (index >= arguments->count || napi_get_value_external(arguments->env, arguments->given[index], &data) != napi_ok ||
      data == NULL) {
    fail(arguments, "a handle is needed");
  }
  return data;
}

/* Splits at the NUL after each part. */
static struct texts split(struct arguments* arguments, once_bytes joined) {
  struct texts texts = {NULL, 0};
  const char* at = joined.data;
  const char* end = at + joined.size;
  for (const char* c = at; c < end; ++c) texts.count += *c == '\0';
  if (texts.count == 0 || arguments->failed) return (struct texts){NULL, 0};
  texts.list = take(arguments, texts.count * sizeof *texts.list);
  if (texts.list == NULL) return (struct texts){NULL, 0};
  for (size_t i = 0; i < texts.count; ++i) {
    const char* stop = memchr(at, '\0', (size_t)(end - at));
    texts.list[i] = (once_bytes){at, (size_t)(stop - at)};
    at = stop + 1;
  }
  return texts;
}

struct texts texts_argument(struct arguments* arguments, size_t index) {
  struct texts parts = split(arguments, text_argument(arguments, index));
  if (parts.count != (size_t)number_argument(arguments, index + 1)) fail(arguments, "a text contains a NUL");
  return parts;
}

struct fields fields_argument(struct arguments* arguments, size_t index) {
  struct texts parts = split(arguments, latin1_argument(arguments, index));
  if (parts.count != (size_t)number_argument(arguments, index + 1)) fail(arguments, "a header contains a NUL");
  /* Two consecutive parts, a name and a value, are a field. */
  _Static_assert(sizeof(once_field) == 2 * sizeof(once_bytes), "a field is two parts");
  if (parts.count % 2 != 0) fail(arguments, "a header without a value");
  return (struct fields){(once_field*)parts.list, parts.count / 2};
}
