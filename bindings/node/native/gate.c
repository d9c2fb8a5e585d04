/* Opens and closes gates, and brings their events to JavaScript: the event loop polls once_poll_fd(), so no other
 * thread ever enters JavaScript, and none is needed. */
#include "gate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "events.h"
#include "library.h"

enum { EVENTS_AT_ONCE = 64, EXIT_TIMEOUT_MS = 500 };

/* once_open() and once_free() wait for stores, so they run on a thread of Node's pool. */
struct task {
  napi_async_work work;
  napi_deferred deferred;
  once_status status;
  char error[4096];
  struct arguments* arguments; /* for open */
  napi_ref deliver;            /* for open */
  once_gate* once;
  uint32_t timeout_ms; /* for close */
};

bool call_succeeded(napi_env env, once_status status) {
  if (status == ONCE_OK) return true;
  napi_throw_error(env, once_lib.once_status_name(status), once_lib.once_last_error());
  return false;
}

void gate_expects(struct gate* gate) {
  if (gate->pending++ == 0 && gate->poll != NULL) uv_ref(gate->poll);
}

void gate_release(struct gate* gate) {
  if (--gate->owners == 0) free(gate);
}

static void finalize_gate(napi_env env, void* data, void* hint) {
  (void)env;
  (void)hint;
  gate_release(data);
}

/* ---- Events ---- */

static void deliver_all(struct gate* gate) {
  once_event* events[EVENTS_AT_ONCE];
  size_t count = 0;
  do {
    count = 0;
    if (gate->once == NULL || once_lib.once_drain(gate->once, events, EVENTS_AT_ONCE, &count) != ONCE_OK) return;
    for (size_t i = 0; i < count; ++i) {
      if (events[i]->tag != 0 && --gate->pending == 0 && gate->poll != NULL) uv_unref(gate->poll);
      deliver_event(gate, events[i]);
      once_lib.once_event_free(events[i]);
    }
  } while (count == EVENTS_AT_ONCE);
}

static void on_readable(uv_poll_t* poll, int status, int events) {
  (void)status;
  (void)events;
  struct gate* gate = uv_handle_get_data(poll);
  napi_handle_scope handles;
  napi_callback_scope callbacks;
  napi_value resource;
  napi_open_handle_scope(gate->env, &handles);
  napi_create_object(gate->env, &resource);
  /* Promises are resolved in here; their continuations run when it is closed. */
  napi_open_callback_scope(gate->env, resource, gate->context, &callbacks);
  deliver_all(gate);
  napi_close_callback_scope(gate->env, callbacks);
  napi_close_handle_scope(gate->env, handles);
}

/* ---- Closing ---- */

static void on_poll_closed(uv_handle_t* poll) {
  struct gate* gate = uv_handle_get_data(poll);
  free(poll);
  napi_delete_reference(gate->env, gate->deliver);
  napi_async_destroy(gate->env, gate->context);
  if (gate->cleanup != NULL) napi_remove_async_cleanup_hook(gate->cleanup);
  gate_release(gate);
}

/* Stops delivering events. Returns the gate to free. */
static once_gate* detach(struct gate* gate) {
  once_gate* once = gate->once;
  gate->once = NULL;
  if (gate->poll != NULL) {
    uv_poll_stop(gate->poll);
    uv_close(gate->poll, on_poll_closed);
    gate->poll = NULL;
  }
  return once;
}

/* Called when the environment ends: the process, or a worker. Held claims lapse. */
static void on_environment_ends(napi_async_cleanup_hook_handle handle, void* data) {
  (void)handle;
  once_gate* once = detach(data);
  if (once != NULL) once_lib.once_free(once, EXIT_TIMEOUT_MS);
}

static void reject(napi_env env, struct task* task) {
  napi_value code, text, error;
  napi_create_string_utf8(env, once_lib.once_status_name(task->status), NAPI_AUTO_LENGTH, &code);
  napi_create_string_utf8(env, task->error, NAPI_AUTO_LENGTH, &text);
  napi_create_error(env, code, text, &error);
  napi_reject_deferred(env, task->deferred, error);
}

static void free_task(napi_env env, struct task* task) {
  napi_delete_async_work(env, task->work);
  if (task->arguments != NULL) arguments_free(task->arguments);
  free(task->arguments);
  free(task);
}

static napi_value start_task(napi_env env, struct task* task, const char* name, napi_async_execute_callback run,
                             napi_async_complete_callback done) {
  napi_value promise, label;
  napi_create_promise(env, &task->deferred, &promise);
  napi_create_string_utf8(env, name, NAPI_AUTO_LENGTH, &label);
  napi_create_async_work(env, NULL, label, run, done, task, &task->work);
  napi_queue_async_work(env, task->work);
  return promise;
}

static void run_close(napi_env env, void* data) {
  (void)env;
  struct task* task = data;
  task->status = once_lib.once_free(task->once, task->timeout_ms);
}

static void done_close(napi_env env, napi_status status, void* data) {
  (void)status;
  struct task* task = data;
  napi_value nothing;
  napi_get_undefined(env, &nothing);
  napi_resolve_deferred(env, task->deferred, nothing);
  free_task(env, task);
}

napi_value close_gate(napi_env env, napi_callback_info info) {
  struct arguments arguments;
  arguments_read(&arguments, env, info);
  struct gate* gate = external_argument(&arguments, 0);
  const double timeout_ms = number_argument(&arguments, 1);
  struct task* task = arguments.failed ? NULL : calloc(1, sizeof *task);
  arguments_free(&arguments);
  if (task == NULL) return NULL;
  task->once = detach(gate);
  task->timeout_ms = (uint32_t)timeout_ms;
  return start_task(env, task, "once close", run_close, done_close);
}

/* ---- Opening ---- */

static void run_open(napi_env env, void* data) {
  (void)env;
  struct task* task = data;
  once_options* options = task->arguments->blocks[0];
  task->status = once_lib.once_open(options, &task->once);
  if (task->status != ONCE_OK) snprintf(task->error, sizeof task->error, "%s", once_lib.once_last_error());
}

static struct gate* start_polling(napi_env env, once_gate* once, napi_ref deliver) {
  uv_loop_t* loop = NULL;
  struct gate* gate = calloc(1, sizeof *gate);
  uv_poll_t* poll = calloc(1, uv_handle_size(ONCE_UV_POLL));
  const int fd = once_lib.once_poll_fd(once);
  if (gate == NULL || poll == NULL || fd < 0 || napi_get_uv_event_loop(env, &loop) != napi_ok ||
      uv_poll_init(loop, poll, fd) != 0) {
    free(gate);
    free(poll);
    return NULL;
  }
  gate->env = env;
  gate->once = once;
  gate->deliver = deliver;
  gate->poll = poll;
  gate->owners = 2;
  uv_handle_set_data(poll, gate);
  uv_poll_start(poll, ONCE_UV_READABLE, on_readable);
  uv_unref(poll);
  napi_value resource, name;
  napi_create_object(env, &resource);
  napi_create_string_utf8(env, "once", NAPI_AUTO_LENGTH, &name);
  napi_async_init(env, resource, name, &gate->context);
  napi_add_async_cleanup_hook(env, on_environment_ends, gate, &gate->cleanup);
  return gate;
}

static void done_open(napi_env env, napi_status status, void* data) {
  struct task* task = data;
  if (status != napi_ok || task->status != ONCE_OK) {
    if (task->once != NULL) once_lib.once_free(task->once, EXIT_TIMEOUT_MS);
    napi_delete_reference(env, task->deliver);
    if (status == napi_ok) reject(env, task);
    free_task(env, task);
    return;
  }
  struct gate* gate = start_polling(env, task->once, task->deliver);
  if (gate == NULL) {
    once_lib.once_free(task->once, EXIT_TIMEOUT_MS);
    napi_delete_reference(env, task->deliver);
    task->status = ONCE_NO_MEMORY;
    snprintf(task->error, sizeof task->error, "the event loop cannot watch the library's descriptor");
    reject(env, task);
  } else {
    napi_value handle;
    napi_create_external(env, gate, finalize_gate, NULL, &handle);
    napi_resolve_deferred(env, task->deferred, handle);
  }
  free_task(env, task);
}

napi_value open_gate(napi_env env, napi_callback_info info) {
  struct task* task = calloc(1, sizeof *task);
  struct arguments* arguments = calloc(1, sizeof *arguments);
  once_options* options = calloc(1, sizeof *options);
  if (task == NULL || arguments == NULL || options == NULL) {
    napi_throw_error(env, "no_memory", "out of memory");
    return NULL;
  }
  task->arguments = arguments;
  arguments_read(arguments, env, info);
  arguments->blocks[arguments->block_count++] = options;
  options->size = sizeof *options;
  options->config_file = text_argument(arguments, 0);
  options->config_text = text_argument(arguments, 1);
  const struct texts settings = texts_argument(arguments, 2);
  options->settings = (const once_field*)settings.list;
  options->setting_count = settings.count / 2;
  options->log = (uint32_t)number_argument(arguments, 4);
  if (!arguments->failed &&
      (arguments->count < 6 || napi_create_reference(env, arguments->given[5], 1, &task->deliver) != napi_ok)) {
    napi_throw_type_error(env, NULL, "a function for events is needed");
    arguments->failed = true;
  }
  if (arguments->failed) {
    arguments_free(arguments);
    free(arguments);
    free(task);
    return NULL;
  }
  return start_task(env, task, "once open", run_open, done_open);
}
