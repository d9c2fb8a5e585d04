/* Turns events into arguments for JavaScript. Fields are passed as one string, each part with a NUL after it: one value
 * is much cheaper to create than two for each field. */
#include "events.h"

#include <stdlib.h>
#include <string.h>

#include "library.h"

enum { MOST_VALUES = 12 };

struct values {
  napi_env env;
  napi_value list[MOST_VALUES];
  size_t count;
};

static void add_number(struct values* values, double number) {
  napi_create_double(values->env, number, &values->list[values->count++]);
}

napi_value latin1_value(napi_env env, once_bytes text) {
  napi_value value;
  napi_create_string_latin1(env, text.size == 0 ? "" : text.data, text.size, &value);
  return value;
}

static void add_latin1(struct values* values, once_bytes text) {
  values->list[values->count++] = latin1_value(values->env, text);
}

static void add_utf8(struct values* values, once_bytes text) {
  napi_create_string_utf8(values->env, text.size == 0 ? "" : text.data, text.size, &values->list[values->count++]);
}

static void add_buffer(struct values* values, once_bytes bytes) {
  napi_create_buffer_copy(values->env, bytes.size, bytes.size == 0 ? "" : bytes.data, NULL,
                          &values->list[values->count++]);
}

static char* append(char* at, once_bytes part) {
  if (part.size > 0) memcpy(at, part.data, part.size);
  at[part.size] = '\0';
  return at + part.size + 1;
}

static void add_fields(struct values* values, const once_field* fields, size_t count) {
  char room[4096];
  size_t size = 0;
  for (size_t i = 0; i < count; ++i) size += fields[i].name.size + fields[i].value.size + 2;
  char* joined = size <= sizeof room ? room : malloc(size);
  if (joined == NULL) size = count = 0;
  char* at = joined;
  for (size_t i = 0; i < count; ++i) at = append(append(at, fields[i].name), fields[i].value);
  add_latin1(values, (once_bytes){joined, size});
  if (joined != room) free(joined);
}

static void add_reply(struct values* values, const once_reply* reply) {
  add_number(values, reply->status);
  add_number(values, reply->ending);
  add_number(values, reply->settled);
  add_number(values, reply->attempt);
  add_latin1(values, reply->reason);
  add_fields(values, reply->fields, reply->field_count);
  add_buffer(values, reply->body);
  add_number(values, reply->body_is_yours);
}

static void finalize_claim(napi_env env, void* data, void* hint) {
  (void)env;
  (void)hint;
  struct held* held = data;
  if (held->claim != NULL) once_lib.once_claim_free(held->claim);
  gate_release(held->gate);
  free(held);
}

static void add_claim(struct values* values, struct gate* gate, once_claim* claim, const once_claim_info* claim_info) {
  struct held* held = malloc(sizeof *held);
  if (held == NULL) abort();
  *held = (struct held){claim, gate};
  ++gate->owners;
  napi_create_external(values->env, held, finalize_claim, NULL, &values->list[values->count++]);
  add_number(values, claim_info->attempt);
  add_number(values, claim_info->is_protected);
  add_number(values, (double)claim_info->fence);
  add_latin1(values, claim_info->token);
  add_latin1(values, claim_info->operation);
  add_latin1(values, claim_info->request_id);
  add_fields(values, claim_info->fields, claim_info->field_count);
  add_number(values, (double)claim_info->max_body);
}

static void add_outcome(struct values* values, const once_outcome* outcome) {
  add_utf8(values, outcome->status);
  add_utf8(values, outcome->reason);
  add_utf8(values, outcome->detail);
  add_buffer(values, outcome->value);
  add_number(values, outcome->cached);
  add_number(values, outcome->attempt);
  add_number(values, (double)outcome->fence);
  add_number(values, (double)outcome->retry_after_ms);
  add_number(values, outcome->code);
}

static void add_members(struct values* values, struct gate* gate, const once_event* event) {
  switch ((once_event_kind)event->kind) {
    case ONCE_EVENT_REPLY:
    case ONCE_EVENT_PASS: add_reply(values, event->reply); return;
    case ONCE_EVENT_CLAIM: add_claim(values, gate, event->claim, event->claim_info); return;
    case ONCE_EVENT_OUTCOME: add_outcome(values, event->outcome); return;
    case ONCE_EVENT_SWEPT:
      add_number(values, (double)event->removed);
      if (event->outcome != NULL) add_utf8(values, event->outcome->detail); /* the reason of the failure */
      return;
    case ONCE_EVENT_LOG:
      add_number(values, event->log->level);
      add_utf8(values, event->log->line);
      return;
    case ONCE_EVENT_CANCELLED:
    case ONCE_EVENT_STOPPED: return;
  }
}

void deliver_event(struct gate* gate, const once_event* event) {
  napi_env env = gate->env;
  napi_handle_scope scope;
  napi_open_handle_scope(env, &scope);
  struct values values = {env, {0}, 0};
  add_number(&values, event->kind);
  add_number(&values, (double)event->tag);
  add_members(&values, gate, event);
  napi_value deliver, global, result;
  napi_get_reference_value(env, gate->deliver, &deliver);
  napi_get_global(env, &global);
  if (napi_call_function(env, global, deliver, values.count, values.list, &result) == napi_pending_exception) {
    napi_value error;
    napi_get_and_clear_last_exception(env, &error);
    napi_fatal_exception(env, error);
  }
  napi_close_handle_scope(env, scope);
}
