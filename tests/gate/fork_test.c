/* A process with a gate forks: children that leave it alone, that use it, and that hold a claim of their parent. */
#include "check.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child that hangs ends by SIGALRM, and the test fails. */
static void expect_child(pid_t child) {
  int status = 0;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static pid_t fork_child(void) {
  const pid_t child = fork();
  if (child == 0) alarm(patience_ms / 1000);
  return child;
}

static void child_that_never_touches_it_exits(void) {
  once_gate *gate = open_gate("memory:");
  once_claim *claim = begin_claim(gate, "k1", "a");
  const pid_t child = fork_child();
  if (child == 0) exit(0); /* with all that is registered for it */
  expect_child(child);
  complete(gate, claim, "done");
  close_gate(gate);
}

static void child_opens_it_anew(void) {
  once_gate *gate = open_gate("memory:");
  once_claim *claim = begin_claim(gate, "k1", "a");
  once_event *event = begin(gate, "k0", "a");
  const int descriptor = once_poll_fd(gate);
  const pid_t child = fork_child();
  if (child == 0) {
    const once_response response = {.size = sizeof response, .status = 200};
    CHECK(once_finish(claim, &response, 1) == ONCE_FORKED);
    CHECK(once_abandon(claim, 1) == ONCE_FORKED);
    int lost = 0;
    CHECK(once_claim_lost(claim, &lost) == ONCE_FORKED);
    once_claim_free(claim);
    once_event_free(event);
    CHECK(once_poll_fd(gate) >= 0 && once_poll_fd(gate) != descriptor);
    /* The child's memory is its own: there the key is new. */
    once_claim *own = begin_claim(gate, "k1", "a");
    complete(gate, own, "child");
    close_gate(gate);
    exit(0);
  }
  expect_child(child);
  once_claim_free(event->claim);
  once_event_free(event);
  complete(gate, claim, "parent");
  event = begin(gate, "k1", "a");
  CHECK(event->reply->ending == ONCE_REPLAYED && same(event->reply->body, "parent"));
  once_event_free(event);
  close_gate(gate);
}

static void child_of_a_child_can_free_it(void) {
  once_gate *gate = open_gate("memory:");
  const pid_t child = fork_child();
  if (child == 0) {
    close_gate(gate);
    exit(0);
  }
  expect_child(child);
  close_gate(gate);
}

/* A journal belongs to one process: the child is told so, and can use it when its parent has let it go. */
static void child_is_told_that_the_journal_is_taken(void) {
  char folder[] = "journal:/tmp/once-gate-fork-XXXXXX";
  CHECK(mkdtemp(strchr(folder, ':') + 1) != NULL);
  once_gate *gate = open_gate(folder);
  const pid_t child = fork_child();
  if (child == 0) {
    once_field fields[2];
    const once_request request = keyed(fields, "k1", "a");
    CHECK(once_begin(gate, &request, 1) == ONCE_UNAVAILABLE);
    CHECK(strlen(once_last_error()) > 0);
    exit(0);
  }
  expect_child(child);
  once_claim *claim = begin_claim(gate, "k1", "a");
  complete(gate, claim, "done");
  close_gate(gate);
}

static void disposition_of_sigpipe_stays(void) {
  struct sigaction before;
  struct sigaction after;
  CHECK(sigaction(SIGPIPE, NULL, &before) == 0);
  once_gate *gate = open_gate("memory:");
  sigset_t mask;
  CHECK(sigprocmask(SIG_SETMASK, NULL, &mask) == 0 && sigismember(&mask, SIGUSR1) == 0);
  CHECK(sigaction(SIGPIPE, NULL, &after) == 0 && before.sa_handler == after.sa_handler);
  close_gate(gate);
}

/* A signal of the program that is handled on a thread of ours could run a handler of its interpreter there. */
static int takes_signals(const char *task) {
  char path[64];
  char line[256];
  snprintf(path, sizeof path, "/proc/self/task/%s/status", task);
  FILE *status = fopen(path, "r");
  if (status == NULL) return 0; /* it has ended */
  uint64_t blocked = UINT64_MAX;
  while (fgets(line, sizeof line, status) != NULL) sscanf(line, "SigBlk: %" SCNx64, &blocked);
  fclose(status);
  const int asked[] = {SIGINT, SIGTERM, SIGCHLD, SIGALRM, SIGPIPE, SIGUSR1, SIGPROF};
  for (size_t i = 0; i < sizeof asked / sizeof *asked; ++i) {
    if ((blocked & (UINT64_C(1) << (asked[i] - 1))) == 0) return 1;
  }
  return 0;
}

static void threads_of_the_gate_take_no_signals(void) {
  char folder[] = "journal:/tmp/once-gate-signals-XXXXXX";
  CHECK(mkdtemp(strchr(folder, ':') + 1) != NULL);
  once_gate *gate = open_gate(folder);
  once_claim *claim = begin_claim(gate, "k1", "a");
  complete(gate, claim, "done");
  const uint64_t tag = once_private_tag(gate);
  CHECK(once_sweep(gate, tag) == ONCE_OK); /* has a thread of its own */
  once_event_free(wait_for(gate, tag));
  char own[16];
  snprintf(own, sizeof own, "%d", (int)gettid());
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  size_t others = 0;
  for (struct dirent *task = readdir(tasks); task != NULL; task = readdir(tasks)) {
    if (task->d_name[0] == '.' || strcmp(task->d_name, own) == 0) continue;
    CHECK(!takes_signals(task->d_name));
    ++others;
  }
  closedir(tasks);
  CHECK(others >= 3); /* the loop, the journal's, the sweep's */
  close_gate(gate);
}

int main(void) {
  child_that_never_touches_it_exits();
  child_opens_it_anew();
  child_of_a_child_can_free_it();
  child_is_told_that_the_journal_is_taken();
  disposition_of_sigpipe_stays();
  threads_of_the_gate_take_no_signals();
  puts("ok");
  return 0;
}
