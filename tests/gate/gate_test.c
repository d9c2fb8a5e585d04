/* The C interface as a program uses it, on the memory store. */
#include "check.h"

static void first_request_executes_and_retry_replays(void) {
  once_gate *gate = open_gate("memory:");
  once_event *begun = begin(gate, "k1", "{\"amount\":1}");
  CHECK(begun->kind == ONCE_EVENT_CLAIM);
  const once_claim_info *info = begun->claim_info;
  CHECK(info->attempt == 1 && info->is_protected == 1 && info->operation.size == 64 && info->token.size == 97);
  CHECK(info->max_body > 0 && find(info->fields, info->field_count, "X-Request-Id") != NULL);
  once_claim *claim = begun->claim;
  once_event_free(begun);
  once_event *done = finish(gate, claim, 201, "{\"id\":7}");
  CHECK(done->reply->status == 201 && done->reply->ending == ONCE_EXECUTED);
  CHECK(done->reply->settled == ONCE_SETTLED_SUCCEEDED && same(done->reply->body, "{\"id\":7}"));
  CHECK(has(done->reply, "Idempotency-Status", "executed") && has(done->reply, "Content-Length", "8"));
  CHECK(find(done->reply->fields, done->reply->field_count, "Date") == NULL);
  once_event_free(done);
  const once_response again = {.size = sizeof again, .status = 200};
  CHECK(once_finish(claim, &again, 1) == ONCE_ENDED);
  once_claim_free(claim);

  once_event *retried = begin(gate, "k1", "{\"amount\":1}");
  CHECK(retried->kind == ONCE_EVENT_REPLY && retried->reply->ending == ONCE_REPLAYED);
  CHECK(retried->reply->status == 201 && same(retried->reply->body, "{\"id\":7}"));
  CHECK(has(retried->reply, "Idempotency-Replayed", "true") && has(retried->reply, "Content-Type", "application/json"));
  once_event_free(retried);
  expect_reply(begin(gate, "k1", "{\"amount\":2}"), 422, ONCE_MISMATCH);
  close_gate(gate);
}

static void request_without_key_passes(void) {
  once_gate *gate = open_gate("memory:");
  once_field fields[2];
  once_request request = keyed(fields, "k", "");
  request.field_count = 1;
  int needed = 1;
  uint64_t most = 1;
  CHECK(once_needs_body(gate, &request, &needed, &most) == ONCE_OK && needed == 0);
  const uint64_t tag = once_private_tag(gate);
  CHECK(once_begin(gate, &request, tag) == ONCE_OK);
  once_event *event = wait_for(gate, tag);
  CHECK(event->kind == ONCE_EVENT_PASS);
  CHECK(find(event->reply->fields, event->reply->field_count, "X-Request-Id") != NULL);
  once_event_free(event);
  request.field_count = 2;
  CHECK(once_needs_body(gate, &request, &needed, &most) == ONCE_OK && needed == 1 && most > 0);
  close_gate(gate);
}

static void drained_events_come_through_the_descriptor(void) {
  once_gate *gate = open_gate("memory:");
  once_field fields[2];
  const once_request request = keyed(fields, "k1", "a");
  CHECK(once_begin(gate, &request, 7) == ONCE_OK);
  once_event *event = NULL;
  size_t count = 0;
  while (count == 0) {
    struct pollfd ready = {.fd = once_poll_fd(gate), .events = POLLIN};
    CHECK(poll(&ready, 1, patience_ms) == 1);
    CHECK(once_drain(gate, &event, 1, &count) == ONCE_OK);
    if (count == 1 && event->kind == ONCE_EVENT_LOG) {
      CHECK(event->log->line.size > 0);
      once_event_free(event);
      count = 0;
    }
  }
  CHECK(event->tag == 7 && event->kind == ONCE_EVENT_CLAIM);
  struct pollfd quiet = {.fd = once_poll_fd(gate), .events = POLLIN};
  CHECK(once_drain(gate, &event, 0, &count) == ONCE_OK && count == 0);
  CHECK(poll(&quiet, 1, 0) == 0);
  once_claim_free(event->claim);
  once_event_free(event);
  close_gate(gate);
}

/* How many lines of the log about callers have come. */
static size_t lines_about_callers(once_gate *gate) {
  once_event *event = NULL;
  size_t lines = 0;
  size_t count = 0;
  while (once_drain(gate, &event, 1, &count) == ONCE_OK && count == 1) {
    CHECK(event->kind == ONCE_EVENT_LOG);
    lines += memmem(event->log->line.data, event->log->line.size, "caller_missing", 14) != NULL;
    once_event_free(event);
  }
  return lines;
}

/* A program that does work only has no callers to be warned about. */
static void settings_of_requests_are_warned_of_with_the_first_one(void) {
  const once_field settings[] = {{text("store"), text("memory:")},
                                 {text("secret_file"), text(getenv("ONCE_TEST_SECRET"))}};
  once_options options = {.size = sizeof options, .settings = settings, .setting_count = 2};
  once_gate *gate = NULL;
  CHECK(once_open(&options, &gate) == ONCE_OK);
  const once_work work = {.size = sizeof work, .scope = text("jobs"), .key = text("k")};
  for (int i = 0; i < 2; ++i) {
    const uint64_t tag = once_private_tag(gate);
    CHECK(once_look(gate, &work, tag) == ONCE_OK);
    once_event_free(wait_for(gate, tag));
  }
  CHECK(lines_about_callers(gate) == 0);
  once_claim_free(begin_claim(gate, "k1", "a"));
  struct pollfd ready = {.fd = once_poll_fd(gate), .events = POLLIN};
  CHECK(poll(&ready, 1, patience_ms) == 1);
  CHECK(lines_about_callers(gate) == 1);
  once_claim_free(begin_claim(gate, "k2", "a"));
  once_claim_free(begin_claim(gate, "k3", "a"));
  CHECK(lines_about_callers(gate) == 0);
  close_gate(gate);
}

static void cancelled_wait_ends(void) {
  once_gate *gate = open_gate("memory:");
  once_claim *claim = begin_claim(gate, "k1", "a");
  const uint64_t waits = start(gate, "k1", "a");
  CHECK(once_cancel(gate, waits) == ONCE_OK);
  once_event *event = wait_for(gate, waits);
  CHECK(event->kind == ONCE_EVENT_CANCELLED);
  once_event_free(event);
  /* A wait that is not long enough cancels, too; its event is dropped. */
  CHECK(once_wait(gate, start(gate, "k1", "a"), 1, &event) == ONCE_TIMEOUT && event == NULL);
  complete(gate, claim, "done");
  close_gate(gate);
}

static void dropped_and_abandoned_claims_are_unknown(void) {
  once_gate *gate = open_gate("memory:");
  once_claim_free(begin_claim(gate, "dropped", "a"));
  expect_reply(begin(gate, "dropped", "a"), 409, ONCE_UNKNOWN);

  once_claim *claim = begin_claim(gate, "abandoned", "a");
  const uint64_t tag = once_private_tag(gate);
  CHECK(once_abandon(claim, tag) == ONCE_OK);
  once_event *event = wait_for(gate, tag);
  CHECK(event->reply->status == 500 && event->reply->ending == ONCE_UNKNOWN);
  CHECK(event->reply->settled == ONCE_SETTLED_UNKNOWN && has(event->reply, "X-Should-Retry", "false"));
  once_event_free(event);
  once_claim_free(claim);

  claim = begin_claim(gate, "released", "a");
  CHECK(once_release(claim, tag) == ONCE_OK);
  event = wait_for(gate, tag);
  CHECK(event->reply->status == 503 && event->reply->settled == ONCE_SETTLED_RELEASED);
  once_event_free(event);
  once_claim_free(claim);
  once_claim_free(begin_claim(gate, "released", "b"));

  once_text *metrics = NULL;
  CHECK(once_metrics(gate, &metrics) == ONCE_OK);
  CHECK(strstr(metrics->data, "once_gate_claims_dropped_total 1") != NULL ||
        strstr(metrics->data, "once_gate_claims_dropped_total 2") != NULL);
  once_text_free(metrics);
  close_gate(gate);
}

static void wrong_arguments_are_answered(void) {
  once_gate *gate = NULL;
  CHECK(once_open(NULL, &gate) == ONCE_INVALID && strlen(once_last_error()) > 0);
  once_options options = {.size = sizeof options, .config_text = text("lese: 1s\nstore: 'memory:'\n")};
  CHECK(once_open(&options, &gate) == ONCE_CONFIG && strstr(once_last_error(), "lese") != NULL && gate == NULL);
  options.config_text = text("store: 'memory:'\nroutes:\n  - path: /a\n    mode: shadow\n");
  CHECK(once_open(&options, &gate) == ONCE_CONFIG && strstr(once_last_error(), "shadow") != NULL);
  options.config_text = text("store: 'memory:'\nroutes:\n  - path: /a\n    conditional:\n      if_match: on\n");
  CHECK(once_open(&options, &gate) == ONCE_CONFIG && strstr(once_last_error(), "conditional") != NULL);
  CHECK(once_begin(NULL, NULL, 0) == ONCE_INVALID);
  CHECK(once_finish(NULL, NULL, 0) == ONCE_INVALID);
  CHECK(once_free(NULL, 0) == ONCE_OK);
  once_claim_free(NULL);
  once_event_free(NULL);

  gate = open_gate("memory:");
  once_field fields[3];
  once_request request = keyed(fields, "k1", "a");
  once_event *event = NULL;
  CHECK(once_wait(gate, 1, 0, &event) == ONCE_INVALID);
  /* A line end in a value must not become a field of its own. */
  fields[2].name = text("X-Note");
  fields[2].value = text("a\r\nIdempotency-Key: other");
  request.field_count = 3;
  const uint64_t tag = once_private_tag(gate);
  CHECK(once_begin(gate, &request, tag) == ONCE_OK);
  event = wait_for(gate, tag);
  CHECK(event->kind == ONCE_EVENT_REPLY && event->reply->status == 400);
  once_event_free(event);
  once_claim *claim = begin_claim(gate, "k2", "a");
  const once_response bad = {.size = sizeof bad, .status = 200, .fields = fields, .field_count = 3};
  CHECK(once_finish(claim, &bad, 1) == ONCE_INVALID);
  once_event_free(finish(gate, claim, 200, "still open"));
  CHECK(once_complete(claim, text("1"), text(""), 1) == ONCE_INVALID);
  once_claim_free(claim);
  close_gate(gate);
}

static once_outcome outcome_of(once_gate *gate, uint64_t tag, once_event **event) {
  *event = wait_for(gate, tag);
  CHECK((*event)->kind == ONCE_EVENT_OUTCOME);
  return *(*event)->outcome;
}

static once_claim *claim_work(once_gate *gate, const once_work *work, unsigned attempt) {
  const uint64_t tag = once_private_tag(gate);
  CHECK(once_claim_work(gate, work, tag) == ONCE_OK);
  once_event *event = wait_for(gate, tag);
  CHECK(event->kind == ONCE_EVENT_CLAIM && event->claim_info->attempt == attempt);
  once_claim *claim = event->claim;
  once_event_free(event);
  return claim;
}

static void expect_reason(once_gate *gate, once_status asked, uint64_t tag, const char *reason) {
  CHECK(asked == ONCE_OK);
  once_event *event = NULL;
  CHECK(same(outcome_of(gate, tag, &event).reason, reason));
  once_event_free(event);
}

static void work_fails_is_released_and_waited_for(void) {
  once_gate *gate = open_gate("memory:");
  once_work work = {.size = sizeof work, .scope = text("job"), .key = text("1")};
  const uint64_t tag = once_private_tag(gate);
  const uint64_t waits = once_private_tag(gate);
  once_event *event = NULL;
  once_claim *claim = claim_work(gate, &work, 1);
  work.wait_ms = patience_ms;
  CHECK(once_claim_work(gate, &work, waits) == ONCE_OK);
  once_claim *failed = claim;
  expect_reason(gate, once_fail(failed, tag), tag, "work_failed");
  event = wait_for(gate, waits);
  CHECK(event->kind == ONCE_EVENT_CLAIM && event->claim_info->attempt == 2);
  claim = event->claim;
  once_event_free(event);
  expect_reason(gate, once_fail(failed, tag), tag, "work_failed"); /* it may be repeated, whoever has it now */
  expect_reason(gate, once_release(failed, tag), tag, "lost");
  once_claim_free(failed);
  CHECK(once_recorded(claim, tag) == ONCE_OK);
  const once_outcome recorded = outcome_of(gate, tag, &event);
  CHECK(same(recorded.status, "in_progress") && recorded.retry_after_ms > 0);
  once_event_free(event);
  expect_reason(gate, once_release(claim, tag), tag, "none");
  once_claim *next = claim_work(gate, &work, 2);
  expect_reason(gate, once_release(claim, tag), tag, "none");
  expect_reason(gate, once_fail(claim, tag), tag, "lost");
  once_claim_free(claim);
  expect_reason(gate, once_release(next, tag), tag, "none");
  once_claim_free(next);
  CHECK(once_sweep(gate, tag) == ONCE_OK);
  event = wait_for(gate, tag);
  CHECK(event->kind == ONCE_EVENT_SWEPT && event->removed == 0);
  once_event_free(event);
  close_gate(gate);
}

static void stop_waits_for_claims_and_free_does_not(void) {
  once_gate *gate = open_gate("memory:");
  once_claim *claim = begin_claim(gate, "k1", "a");
  once_claim *forgotten = begin_claim(gate, "k2", "a");
  const uint64_t stops = once_private_tag(gate);
  CHECK(once_stop(gate, stops) == ONCE_OK);
  once_field fields[2];
  const once_request request = keyed(fields, "k3", "a");
  CHECK(once_begin(gate, &request, 1) == ONCE_STOPPED);
  complete(gate, claim, "done");
  once_event *event = NULL;
  CHECK(once_wait(gate, stops, 50, &event) == ONCE_TIMEOUT);
  close_gate(gate);
  const once_response response = {.size = sizeof response, .status = 200};
  CHECK(once_finish(forgotten, &response, 1) == ONCE_STOPPED);
  once_claim_free(forgotten);

  gate = open_gate("memory:");
  claim = begin_claim(gate, "k1", "a");
  const uint64_t again = once_private_tag(gate);
  CHECK(once_stop(gate, again) == ONCE_OK);
  complete(gate, claim, "done");
  event = wait_for(gate, again);
  CHECK(event->kind == ONCE_EVENT_STOPPED);
  once_event_free(event);
  close_gate(gate);
}

static void helpers_need_no_gate(void) {
  char one[65];
  char other[65];
  CHECK(once_hash_text(text(" a  b "), one) == ONCE_OK && once_hash_text(text("a b"), other) == ONCE_OK);
  CHECK(strcmp(one, other) == 0 && strlen(one) == 64);
  const once_bytes never[] = {text("secret")};
  once_text *kept = NULL;
  CHECK(once_sanitise(text("{\"a\":1,\"secret\":2}"), NULL, 0, never, 1, &kept) == ONCE_OK);
  CHECK(strcmp(kept->data, "{\"a\":1}") == 0);
  once_text_free(kept);
  CHECK(once_sanitise(text("{"), NULL, 0, never, 1, &kept) == ONCE_INVALID);
  CHECK(once_abi_version() == ONCE_ABI_VERSION && strlen(once_version()) > 0);
  CHECK(strcmp(once_status_name(ONCE_FORKED), "forked") == 0);
}

int main(void) {
  first_request_executes_and_retry_replays();
  request_without_key_passes();
  drained_events_come_through_the_descriptor();
  settings_of_requests_are_warned_of_with_the_first_one();
  cancelled_wait_ends();
  dropped_and_abandoned_claims_are_unknown();
  wrong_arguments_are_answered();
  work_fails_is_released_and_waited_for();
  stop_waits_for_claims_and_free_does_not();
  helpers_need_no_gate();
  puts("ok");
  return 0;
}
