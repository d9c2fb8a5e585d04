/* A gate of libonce on the event loop of one Node environment (the main thread or a worker). */
#ifndef ONCE_NODE_GATE_H
#define ONCE_NODE_GATE_H

#include <node_api.h>
#include <stdbool.h>
#include <stddef.h>

#include "once.h"
#include "uv.h"

struct gate {
  napi_env env;
  once_gate* once;  /* NULL once it is closed */
  napi_ref deliver; /* the JavaScript function that takes events */
  napi_async_context context;
  uv_poll_t* poll; /* on once_poll_fd() */
  size_t pending;  /* calls without an event so far: they keep the loop alive, an idle gate does not */
  size_t owners;   /* the handle in JavaScript, and the open poll handle */
  napi_async_cleanup_hook_handle cleanup;
};

/* A claim held by JavaScript. */
struct held {
  once_claim* claim; /* NULL once it was freed */
  struct gate* gate;
};

/* JavaScript: open(configFile, configText, settings, settingCount, log, deliver) -> Promise of a handle */
napi_value open_gate(napi_env env, napi_callback_info info);
/* JavaScript: close(gate, timeoutMs) -> Promise<void> */
napi_value close_gate(napi_env env, napi_callback_info info);

/* Registers a call whose event will come. */
void gate_expects(struct gate* gate);
void gate_release(struct gate* gate);

/* Throws once_last_error(), with the status as its code. Returns whether the status was ONCE_OK. */
bool call_succeeded(napi_env env, once_status status);

#endif
