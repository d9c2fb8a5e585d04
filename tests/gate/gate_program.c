/* A program with a gate that does what its standard input says, one command a line, and says what came of it:
 *
 *   begin METHOD TARGET BODY [NAME=VALUE …]   → claim ATTEMPT OPERATION | reply STATUS ENDING SETTLED BODY | pass
 *   finish STATUS BODY, abandon, release      → reply …, of the claim at hand
 *   lost                                      → lost 0 | lost 1
 *
 * For tests that stop and kill it. At the end of its input it stops properly. */
#include "check.h"

#include <signal.h>

enum { most_fields = 16, longest_line = 4096 };

static void print_reply(const once_reply *reply) {
  printf("reply %d %u %u %.*s\n", reply->status, reply->ending, reply->settled, (int)reply->body.size,
         (const char *)reply->body.data);
}

/* Waits for as long as it takes: whoever gives the commands has a deadline. */
static once_event *result_of(once_gate *gate, uint64_t tag) {
  once_event *event = NULL;
  CHECK(once_wait(gate, tag, UINT32_MAX, &event) == ONCE_OK);
  return event;
}

static once_claim *begin_command(once_gate *gate, char *rest) {
  once_field fields[most_fields];
  size_t count = 0;
  const char *method = strtok(rest, " ");
  const char *target = strtok(NULL, " ");
  const char *body = strtok(NULL, " ");
  CHECK(method != NULL && target != NULL && body != NULL);
  for (char *pair = strtok(NULL, " "); pair != NULL && count < most_fields; pair = strtok(NULL, " ")) {
    char *value = strchr(pair, '=');
    CHECK(value != NULL);
    *value++ = 0;
    fields[count].name = text(pair);
    fields[count++].value = text(value);
  }
  const once_request request = {.size = sizeof request,
                                .method = text(method),
                                .target = text(target),
                                .fields = fields,
                                .field_count = count,
                                .body = text(body),
                                .peer = text("127.0.0.1")};
  const uint64_t tag = once_private_tag(gate);
  CHECK(once_begin(gate, &request, tag) == ONCE_OK);
  once_event *event = result_of(gate, tag);
  once_claim *claim = event->claim;
  if (event->kind == ONCE_EVENT_CLAIM) {
    printf("claim %u %.*s\n", event->claim_info->attempt, (int)event->claim_info->operation.size,
           (const char *)event->claim_info->operation.data);
  } else if (event->kind == ONCE_EVENT_REPLY) {
    print_reply(event->reply);
  } else {
    puts("pass");
  }
  once_event_free(event);
  return claim;
}

static void finish_command(once_claim *claim, const char *command, char *rest, uint64_t tag) {
  if (strcmp(command, "abandon") == 0) {
    CHECK(once_abandon(claim, tag) == ONCE_OK);
  } else if (strcmp(command, "release") == 0) {
    CHECK(once_release(claim, tag) == ONCE_OK);
  } else {
    const char *status = strtok(rest, " ");
    const char *body = strtok(NULL, " ");
    const once_field fields[] = {{text("Content-Type"), text("text/plain")}};
    const once_response response = {.size = sizeof response,
                                    .status = atoi(status),
                                    .fields = fields,
                                    .field_count = 1,
                                    .body = text(body != NULL ? body : "")};
    CHECK(once_finish(claim, &response, tag) == ONCE_OK);
  }
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  const once_options options = {.size = sizeof options, .config_file = text(argv[1]), .log = ONCE_LOG_STDERR};
  once_gate *gate = NULL;
  struct sigaction before;
  struct sigaction after;
  CHECK(sigaction(SIGPIPE, NULL, &before) == 0);
  CHECK(once_open(&options, &gate) == ONCE_OK);
  /* Client libraries of databases change it when they are first used. */
  CHECK(sigaction(SIGPIPE, NULL, &after) == 0 && before.sa_handler == after.sa_handler);
  setvbuf(stdout, NULL, _IOLBF, 0);
  puts("ready");
  once_claim *claim = NULL;
  char line[longest_line];
  while (fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = 0;
    char *rest = strchr(line, ' ');
    if (rest != NULL) *rest++ = 0;
    if (strcmp(line, "begin") == 0) {
      once_claim_free(claim);
      claim = begin_command(gate, rest);
    } else if (strcmp(line, "lost") == 0) {
      int lost = 0;
      CHECK(once_claim_lost(claim, &lost) == ONCE_OK);
      printf("lost %d\n", lost);
    } else {
      const uint64_t tag = once_private_tag(gate);
      finish_command(claim, line, rest, tag);
      once_event *event = result_of(gate, tag);
      print_reply(event->reply);
      once_event_free(event);
    }
  }
  once_claim_free(claim);
  const uint64_t tag = once_private_tag(gate);
  CHECK(once_stop(gate, tag) == ONCE_OK);
  once_event_free(result_of(gate, tag));
  CHECK(once_free(gate, patience_ms) == ONCE_OK);
  return 0;
}
