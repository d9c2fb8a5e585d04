/* The C of docs/guides/gate.md, built and run as it stands there. */
#include <once/once.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

static int charges = 0;

static once_bytes bytes(const char *text) {
  once_bytes made = {text, strlen(text)};
  return made;
}

/* docs: events */
static void answer(once_event *event) {
  if (event->kind == ONCE_EVENT_CLAIM) {
    ++charges; /* the handler: what must happen once */
    const once_response response = {.size = sizeof response, .status = 201, .body = bytes("charged")};
    if (once_finish(event->claim, &response, event->tag) != ONCE_OK) fprintf(stderr, "%s\n", once_last_error());
    once_claim_free(event->claim); /* the finish goes on; its event has the same tag */
  } else if (event->kind == ONCE_EVENT_REPLY) {
    printf("request %d: %d %.*s\n", (int)event->tag, event->reply->status, (int)event->reply->body.size,
           (const char *)event->reply->body.data);
  }
}

static int collect(once_gate *gate, int replies) {
  struct pollfd ready = {.fd = once_poll_fd(gate), .events = POLLIN};
  while (replies > 0 && poll(&ready, 1, 10000) == 1) {
    once_event *event = NULL;
    size_t count = 0;
    if (once_drain(gate, &event, 1, &count) != ONCE_OK || count == 0) continue;
    if (event->kind == ONCE_EVENT_REPLY) --replies;
    answer(event);
    once_event_free(event);
  }
  return replies;
}
/* docs: end */

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  const once_field settings[] = {{bytes("store"), bytes("memory:")},
                                 {bytes("defaults.caller_missing"), bytes("anonymous")},
                                 {bytes("data_dir"), bytes(argv[1])}};
  const once_options options = {.size = sizeof options, .settings = settings, .setting_count = 3};
  once_gate *gate = NULL;
  if (once_open(&options, &gate) != ONCE_OK) {
    fprintf(stderr, "%s\n", once_last_error());
    return 1;
  }
  const once_field fields[] = {{bytes("Host"), bytes("api.example")}, {bytes("Idempotency-Key"), bytes("order-1")}};
  const once_request request = {.size = sizeof request,
                                .method = bytes("POST"),
                                .target = bytes("/charges"),
                                .fields = fields,
                                .field_count = 2,
                                .body = bytes("{\"amount\": 4200}")};
  for (uint64_t tag = 1; tag <= 3; ++tag) {
    if (once_begin(gate, &request, tag) != ONCE_OK) return 1;
  }
  const int missing = collect(gate, 3);
  return once_free(gate, 5000) == ONCE_OK && missing == 0 && charges == 1 ? 0 : 1;
}
