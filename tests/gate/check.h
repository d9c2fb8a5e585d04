/* What the tests in C share: checks that say where they failed, and the calls of the interface with their usual
 * arguments. */
#ifndef ONCE_TESTS_CHECK_H
#define ONCE_TESTS_CHECK_H

#include <inttypes.h>
#include <once/once.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                            \
  do {                                                                                              \
    if (!(condition)) {                                                                             \
      fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, once_last_error());       \
      exit(1);                                                                                      \
    }                                                                                               \
  } while (0)

enum { patience_ms = 20000 };

static inline once_bytes text(const char *given) {
  once_bytes bytes = {given, strlen(given)};
  return bytes;
}

static inline int same(once_bytes bytes, const char *expected) {
  return bytes.size == strlen(expected) && memcmp(bytes.data, expected, bytes.size) == 0;
}

static inline const once_field *find(const once_field *fields, size_t count, const char *name) {
  for (size_t i = 0; i < count; ++i) {
    if (same(fields[i].name, name)) return &fields[i];
  }
  return NULL;
}

static inline int has(const once_reply *reply, const char *name, const char *value) {
  const once_field *field = find(reply->fields, reply->field_count, name);
  return field != NULL && same(field->value, value);
}

/* A gate on this store, with the built-in settings. */
static inline once_gate *open_gate(const char *store) {
  const once_field settings[] = {{text("store"), text(store)},
                                 {text("secret_file"), text(getenv("ONCE_TEST_SECRET"))},
                                 {text("defaults.caller_missing"), text("anonymous")}};
  once_options options = {.size = sizeof options, .settings = settings, .setting_count = 3};
  once_gate *gate = NULL;
  CHECK(once_open(&options, &gate) == ONCE_OK);
  CHECK(gate != NULL);
  return gate;
}

/* A POST with a key; `fields` must have room for two. */
static inline once_request keyed(once_field *fields, const char *key, const char *body) {
  fields[0].name = text("Host");
  fields[0].value = text("api.example");
  fields[1].name = text("Idempotency-Key");
  fields[1].value = text(key);
  once_request request = {.size = sizeof request,
                          .method = text("POST"),
                          .target = text("/payments"),
                          .fields = fields,
                          .field_count = 2,
                          .body = text(body),
                          .peer = text("192.0.2.1")};
  return request;
}

static inline once_event *wait_for(once_gate *gate, uint64_t tag) {
  once_event *event = NULL;
  CHECK(once_wait(gate, tag, patience_ms, &event) == ONCE_OK);
  CHECK(event != NULL && event->tag == tag);
  return event;
}

static inline once_event *begin(once_gate *gate, const char *key, const char *body) {
  once_field fields[2];
  const once_request request = keyed(fields, key, body);
  const uint64_t tag = once_private_tag(gate);
  CHECK(once_begin(gate, &request, tag) == ONCE_OK);
  return wait_for(gate, tag);
}

static inline once_claim *begin_claim(once_gate *gate, const char *key, const char *body) {
  once_event *event = begin(gate, key, body);
  CHECK(event->kind == ONCE_EVENT_CLAIM);
  once_claim *claim = event->claim;
  once_event_free(event);
  return claim;
}

static inline once_event *finish(once_gate *gate, once_claim *claim, int status, const char *body) {
  const once_field fields[] = {{text("Content-Type"), text("application/json")}};
  const once_response response = {
      .size = sizeof response, .status = status, .fields = fields, .field_count = 1, .body = text(body)};
  const uint64_t tag = once_private_tag(gate);
  CHECK(once_finish(claim, &response, tag) == ONCE_OK);
  once_event *event = wait_for(gate, tag);
  CHECK(event->kind == ONCE_EVENT_REPLY);
  return event;
}

/* The reply of an event, which ends here. */
static inline void expect_reply(once_event *event, int status, unsigned ending) {
  CHECK(event->kind == ONCE_EVENT_REPLY && event->reply->status == status && event->reply->ending == ending);
  once_event_free(event);
}

/* The claim ends with this response. */
static inline void complete(once_gate *gate, once_claim *claim, const char *body) {
  once_event_free(finish(gate, claim, 200, body));
  once_claim_free(claim);
}

static inline uint64_t start(once_gate *gate, const char *key, const char *body) {
  once_field fields[2];
  const once_request request = keyed(fields, key, body);
  const uint64_t tag = once_private_tag(gate);
  CHECK(once_begin(gate, &request, tag) == ONCE_OK);
  return tag;
}

static inline void close_gate(once_gate *gate) { CHECK(once_free(gate, patience_ms) == ONCE_OK); }

#endif
