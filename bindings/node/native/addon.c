/* The addon: every function of libonce that the package uses, with plain arguments. native.ts lists the arguments;
 * gate.ts and guard.ts have the interface for users. Nothing here waits. */
#include <node_api.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "events.h"
#include "gate.h"
#include "library.h"

#define LIBUV_MAJOR 1

/* load(path) -> the version of the library */
static napi_value load_library(napi_env env, napi_callback_info info) {
  struct arguments arguments;
  arguments_read(&arguments, env, info);
  const once_bytes path = text_argument(&arguments, 0);
  napi_value version = NULL;
  if (!arguments.failed) {
    const char* failed =
        uv_version() >> 16 == LIBUV_MAJOR ? once_library_load(path.data) : "this Node has another libuv than version 1";
    if (failed != NULL)
      napi_throw_error(env, "unavailable", failed);
    else
      napi_create_string_utf8(env, once_lib.once_version(), NAPI_AUTO_LENGTH, &version);
  }
  arguments_free(&arguments);
  return version;
}

static once_gate* open_once(struct arguments* arguments, struct gate* gate) {
  if (arguments->failed) return NULL;
  if (gate->once == NULL) {
    napi_throw_error(arguments->env, once_lib.once_status_name(ONCE_STOPPED), "the gate is closed");
    arguments->failed = true;
  }
  return gate->once;
}

/* From `first`: method, target, fields, field count, body, peer, scheme, caller, TLS subject, TLS issuer, flags */
static once_request request_argument(struct arguments* arguments, size_t first) {
  once_request request = {.size = sizeof request};
  const struct fields fields = fields_argument(arguments, first + 2);
  request.method = latin1_argument(arguments, first);
  request.target = latin1_argument(arguments, first + 1);
  request.fields = fields.list;
  request.field_count = fields.count;
  request.body = buffer_argument(arguments, first + 4);
  request.peer = latin1_argument(arguments, first + 5);
  request.scheme = latin1_argument(arguments, first + 6);
  request.caller = text_argument(arguments, first + 7);
  request.tls_subject = text_argument(arguments, first + 8);
  request.tls_issuer = text_argument(arguments, first + 9);
  request.flags = (uint32_t)number_argument(arguments, first + 10);
  return request;
}

/* needsBody(gate, request…) -> the largest body that is needed, or -1: none */
static napi_value needs_body(napi_env env, napi_callback_info info) {
  struct arguments arguments;
  arguments_read(&arguments, env, info);
  once_gate* once = open_once(&arguments, external_argument(&arguments, 0));
  const once_request request = request_argument(&arguments, 1);
  int needed = 0;
  uint64_t max_body = 0;
  napi_value result = NULL;
  if (!arguments.failed && call_succeeded(env, once_lib.once_needs_body(once, &request, &needed, &max_body))) {
    napi_create_double(env, needed ? (double)max_body : -1, &result);
  }
  arguments_free(&arguments);
  return result;
}

/* begin(gate, tag, request…) */
static napi_value begin(napi_env env, napi_callback_info info) {
  struct arguments arguments;
  arguments_read(&arguments, env, info);
  struct gate* gate = external_argument(&arguments, 0);
  once_gate* once = open_once(&arguments, gate);
  const uint64_t tag = (uint64_t)number_argument(&arguments, 1);
  const once_request request = request_argument(&arguments, 2);
  if (!arguments.failed && call_succeeded(env, once_lib.once_begin(once, &request, tag))) gate_expects(gate);
  arguments_free(&arguments);
  return NULL;
}

/* The claim, if it was not freed. */
static struct held* held_argument(struct arguments* arguments, size_t index) {
  struct held* held = external_argument(arguments, index);
  if (arguments->failed) return NULL;
  if (held->claim == NULL) {
    napi_throw_error(arguments->env, once_lib.once_status_name(ONCE_ENDED), "the claim has ended");
    arguments->failed = true;
    return NULL;
  }
  return held;
}

/* finish(claim, tag, status, flags, reason, fields, field count, body) */
static napi_value finish(napi_env env, napi_callback_info info) {
  struct arguments arguments;
  arguments_read(&arguments, env, info);
  struct held* held = held_argument(&arguments, 0);
  const uint64_t tag = (uint64_t)number_argument(&arguments, 1);
  const struct fields fields = fields_argument(&arguments, 5);
  const once_response response = {
      .size = sizeof response,
      .status = (int32_t)number_argument(&arguments, 2),
      .flags = (uint32_t)number_argument(&arguments, 3),
      .reason = latin1_argument(&arguments, 4),
      .fields = fields.list,
      .field_count = fields.count,
      .body = buffer_argument(&arguments, 7),
  };
  if (!arguments.failed && call_succeeded(env, once_lib.once_finish(held->claim, &response, tag)))
    gate_expects(held->gate);
  arguments_free(&arguments);
  return NULL;
}

/* complete(claim, tag, value, mediaType) */
static napi_value complete(napi_env env, napi_callback_info info) {
  struct arguments arguments;
  arguments_read(&arguments, env, info);
  struct held* held = held_argument(&arguments, 0);
  const uint64_t tag = (uint64_t)number_argument(&arguments, 1);
  const once_bytes value = text_argument(&arguments, 2);
  const once_bytes media_type = latin1_argument(&arguments, 3);
  if (!arguments.failed && call_succeeded(env, once_lib.once_complete(held->claim, value, media_type, tag)))
    gate_expects(held->gate);
  arguments_free(&arguments);
  return NULL;
}

typedef once_status (*claim_verb)(once_claim* claim, uint64_t tag);

static napi_value end_claim(napi_env env, napi_callback_info info, claim_verb verb) {
  struct arguments arguments;
  arguments_read(&arguments, env, info);
  struct held* held = held_argument(&arguments, 0);
  const uint64_t tag = (uint64_t)number_argument(&arguments, 1);
  if (!arguments.failed && call_succeeded(env, verb(held->claim, tag))) gate_expects(held->gate);
  arguments_free(&arguments);
  return NULL;
}

static napi_value abandon(napi_env env, napi_callback_info info) {
  return end_claim(env, info, once_lib.once_abandon);
}
static napi_value release(napi_env env, napi_callback_info info) {
  return end_claim(env, info, once_lib.once_release);
}
static napi_value fail(napi_env env, napi_callback_info info) {
  return end_claim(env, info, once_lib.once_fail);
}
static napi_value recorded(napi_env env, napi_callback_info info) {
  return end_claim(env, info, once_lib.once_recorded);
}

/* freeClaim(claim) */
static napi_value free_claim(napi_env env, napi_callback_info info) {
  struct arguments arguments;
  arguments_read(&arguments, env, info);
  struct held* held = external_argument(&arguments, 0);
  if (!arguments.failed && held->claim != NULL) {
    once_lib.once_claim_free(held->claim);
    held->claim = NULL;
  }
  arguments_free(&arguments);
  return NULL;
}

/* isLost(claim) -> whether another attempt may own it now */
static napi_value is_lost(napi_env env, napi_callback_info info) {
  struct arguments arguments;
  arguments_read(&arguments, env, info);
  struct held* held = external_argument(&arguments, 0);
  int lost = 0;
  if (!arguments.failed && held->claim != NULL) once_lib.once_claim_lost(held->claim, &lost);
  napi_value result = NULL;
  napi_get_boolean(env, lost != 0, &result);
  arguments_free(&arguments);
  return result;
}

/* From `first`: tenant, scope, key, inputs, fingerprint, ttl, takeoverAfter, lease, wait, onUnknown */
static once_work work_argument(struct arguments* arguments, size_t first) {
  once_work work = {.size = sizeof work};
  work.tenant = text_argument(arguments, first);
  work.scope = text_argument(arguments, first + 1);
  work.key = text_argument(arguments, first + 2);
  work.inputs = text_argument(arguments, first + 3);
  work.fingerprint = text_argument(arguments, first + 4);
  work.ttl_ms = (uint64_t)number_argument(arguments, first + 5);
  work.takeover_after_ms = (uint64_t)number_argument(arguments, first + 6);
  work.lease_ms = (uint64_t)number_argument(arguments, first + 7);
  work.wait_ms = (uint64_t)number_argument(arguments, first + 8);
  work.on_unknown = (uint32_t)number_argument(arguments, first + 9);
  return work;
}

typedef once_status (*work_verb)(once_gate* gate, const once_work* work, uint64_t tag);

static napi_value ask_for_work(napi_env env, napi_callback_info info, work_verb verb) {
  struct arguments arguments;
  arguments_read(&arguments, env, info);
  struct gate* gate = external_argument(&arguments, 0);
  once_gate* once = open_once(&arguments, gate);
  const uint64_t tag = (uint64_t)number_argument(&arguments, 1);
  const once_work work = work_argument(&arguments, 2);
  if (!arguments.failed && call_succeeded(env, verb(once, &work, tag))) gate_expects(gate);
  arguments_free(&arguments);
  return NULL;
}

static napi_value claim_work(napi_env env, napi_callback_info info) {
  return ask_for_work(env, info, once_lib.once_claim_work);
}
static napi_value look(napi_env env, napi_callback_info info) {
  return ask_for_work(env, info, once_lib.once_look);
}

/* computeKey(gate, work…) -> the operation id in hex */
static napi_value compute_key(napi_env env, napi_callback_info info) {
  struct arguments arguments;
  arguments_read(&arguments, env, info);
  once_gate* once = open_once(&arguments, external_argument(&arguments, 0));
  const once_work work = work_argument(&arguments, 1);
  char hex[65];
  napi_value result = NULL;
  if (!arguments.failed && call_succeeded(env, once_lib.once_compute_key(once, &work, hex))) {
    result = latin1_value(env, (once_bytes){hex, strlen(hex)});
  }
  arguments_free(&arguments);
  return result;
}

typedef once_status (*gate_verb)(once_gate* gate, uint64_t tag);

static napi_value ask_gate(napi_env env, napi_callback_info info, gate_verb verb, bool expects) {
  struct arguments arguments;
  arguments_read(&arguments, env, info);
  struct gate* gate = external_argument(&arguments, 0);
  once_gate* once = open_once(&arguments, gate);
  const uint64_t tag = (uint64_t)number_argument(&arguments, 1);
  if (!arguments.failed && call_succeeded(env, verb(once, tag)) && expects) gate_expects(gate);
  arguments_free(&arguments);
  return NULL;
}

static napi_value stop(napi_env env, napi_callback_info info) {
  return ask_gate(env, info, once_lib.once_stop, true);
}
static napi_value sweep(napi_env env, napi_callback_info info) {
  return ask_gate(env, info, once_lib.once_sweep, true);
}
/* The cancelled call still gets its event. */
static napi_value cancel(napi_env env, napi_callback_info info) {
  return ask_gate(env, info, once_lib.once_cancel, false);
}

/* metrics(gate) -> Prometheus' text format */
static napi_value metrics(napi_env env, napi_callback_info info) {
  struct arguments arguments;
  arguments_read(&arguments, env, info);
  once_gate* once = open_once(&arguments, external_argument(&arguments, 0));
  once_text* text = NULL;
  napi_value result = NULL;
  if (!arguments.failed && call_succeeded(env, once_lib.once_metrics(once, &text))) {
    napi_create_string_utf8(env, text->data, text->size, &result);
    once_lib.once_text_free(text);
  }
  arguments_free(&arguments);
  return result;
}

NAPI_MODULE_INIT() {
  const struct {
    const char* name;
    napi_callback function;
  } functions[] = {
      {"load", load_library},
      {"open", open_gate},
      {"close", close_gate},
      {"needsBody", needs_body},
      {"begin", begin},
      {"finish", finish},
      {"abandon", abandon},
      {"release", release},
      {"freeClaim", free_claim},
      {"isLost", is_lost},
      {"claimWork", claim_work},
      {"complete", complete},
      {"fail", fail},
      {"look", look},
      {"recorded", recorded},
      {"computeKey", compute_key},
      {"stop", stop},
      {"cancel", cancel},
      {"sweep", sweep},
      {"metrics", metrics},
  };
  for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i) {
    napi_value function;
    napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].function, NULL, &function);
    napi_set_named_property(env, exports, functions[i].name, function);
  }
  return exports;
}
