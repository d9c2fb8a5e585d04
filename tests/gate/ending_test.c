/* A gate whose store hangs: once_free() keeps its deadline, and the process exits when it wants to. */
#include "check.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { deadline_ms = 200, hangs_ms = 2000, too_long_ms = 20000 };

static int64_t now_ms(void) {
  struct timespec now;
  CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* An address that refuses connections until it is listened on. From then on the kernel takes them, and nobody answers. */
static int reserve(char *store, size_t size) {
  const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  CHECK(server >= 0 && bind(server, (struct sockaddr *)&address, length) == 0);
  CHECK(getsockname(server, (struct sockaddr *)&address, &length) == 0);
  snprintf(store, size, "postgres://nobody@127.0.0.1:%d/x?sslmode=disable", ntohs(address.sin_port));
  return server;
}

static once_gate *open_slow_gate(const char *store) {
  const once_field settings[] = {{text("store"), text(store)},
                                 {text("secret_file"), text(getenv("ONCE_TEST_SECRET"))},
                                 {text("server.timeout"), text("60s")},
                                 {text("server.connect_timeout"), text("60s")},
                                 {text("defaults.caller_missing"), text("anonymous")}};
  const once_options options = {.size = sizeof options, .settings = settings, .setting_count = 5, .log = ONCE_LOG_OFF};
  once_gate *gate = NULL;
  CHECK(once_open(&options, &gate) == ONCE_OK);
  return gate;
}

/* Until one of them has to wait for the store, which is not asked at all for a moment after it was down. */
static void begin_one_that_hangs(once_gate *gate) {
  once_field fields[2];
  const once_request request = keyed(fields, "k1", "a");
  const uint64_t tag = once_private_tag(gate);
  once_status waited = ONCE_OK;
  const int64_t began = now_ms();
  while (waited == ONCE_OK) {
    CHECK(now_ms() - began < patience_ms);
    once_event *event = NULL;
    CHECK(once_begin(gate, &request, tag) == ONCE_OK);
    waited = once_wait(gate, tag, hangs_ms, &event);
    once_event_free(event);
  }
  CHECK(waited == ONCE_TIMEOUT);
}

int main(void) {
  char store[96];
  const int server = reserve(store, sizeof store);
  once_gate *gate = open_slow_gate(store);
  CHECK(listen(server, 16) == 0);
  begin_one_that_hangs(gate);
  once_event *event = NULL;
  const uint64_t stops = once_private_tag(gate);
  int64_t began = now_ms();
  CHECK(once_stop(gate, stops) == ONCE_OK);
  CHECK(once_wait(gate, stops, deadline_ms, &event) == ONCE_TIMEOUT);
  CHECK(now_ms() - began < too_long_ms);
  began = now_ms();
  CHECK(once_free(gate, deadline_ms) == ONCE_TIMEOUT);
  CHECK(now_ms() - began < too_long_ms);
  puts("ok");
  return 0; /* with a thread that still waits for the store */
}
