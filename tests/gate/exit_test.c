/* A process that exits in the midst of its work, with threads of its own and of the gate busy: it exits with the code it
 * wanted, and does not crash. The first argument says how often. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int ended = 0;

static void *work(void *given) {
  once_gate *gate = given;
  for (int i = 0;; ++i) {
    char key[32];
    snprintf(key, sizeof key, "key-%d", i);
    once_event *event = NULL;
    once_field fields[2];
    const once_request request = keyed(fields, key, "a");
    const uint64_t tag = once_private_tag(gate);
    if (once_begin(gate, &request, tag) != ONCE_OK || once_wait(gate, tag, patience_ms, &event) != ONCE_OK) continue;
    if (event->kind == ONCE_EVENT_CLAIM) {
      once_claim *claim = event->claim;
      const once_response response = {.size = sizeof response, .status = 200, .body = text("done")};
      once_finish(claim, &response, tag | 1); /* nobody waits for this one */
      once_claim_free(claim);
    }
    once_event_free(event);
    atomic_fetch_add(&ended, 1);
  }
  return NULL;
}

static void exit_busy(int after) {
  once_gate *gate = open_gate("memory:");
  pthread_t threads[2];
  for (size_t i = 0; i < 2; ++i) CHECK(pthread_create(&threads[i], NULL, work, gate) == 0);
  while (atomic_load(&ended) < after) sched_yield();
  exit(7);
}

int main(int argc, char **argv) {
  const int times = argc > 1 ? atoi(argv[1]) : 20;
  for (int i = 0; i < times; ++i) {
    const pid_t child = fork();
    if (child == 0) exit_busy(i + 1);
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  }
  puts("ok");
  return 0;
}
