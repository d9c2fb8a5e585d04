/* Once inside a process of any language: a gate takes the place of the gateway, with your handler in place of the
 * backend. Same configuration file, same stores, same operation ids, same replies. docs/guides/gate.md is the guide, with a
 * sample; include/once/gate.hpp is the same for C++.
 *
 *   once_begin(gate, &request, tag)  ->  an event: a reply to send as it is (replay, conflict, problem),
 *                                        a claim: run the handler, then once_finish(claim, &response, tag),
 *                                        or pass: the request has no key, run the handler without protection.
 *   once_finish(claim, …)            ->  an event: the reply to send. It is recorded before the event comes.
 *
 * How calls work
 * - Calls with a tag return at once. Each ends in exactly one event with the same tag. Collect events with once_drain()
 *   on your own thread when once_poll_fd() is readable, or wait for one with once_wait(). The library never calls your
 *   functions from its threads.
 * - Every function is thread-safe at any time, except once_free(), which must be the last call on a gate.
 * - Only once_open(), once_wait(), once_free() and the first call in a forked child, which opens the gate again, block.
 * - Arguments are copied: they may be freed when the call returns. Bytes are a pointer and a length; they need no NUL
 *   at their end, and a length of 0 may have any pointer.
 * - Structs with a `size` are sized: set it to sizeof of the struct, and everything you do not use to zero. Later
 *   versions only add members at the end.
 * - The library never throws, aborts or raises a signal in your code. A broken invariant inside Once ends the gate: its
 *   calls return ONCE_BROKEN, and held claims lapse.
 * - Fork: a child that does not use the gate needs nothing. The first call in a child opens the gate again (a journal
 *   can be open in one process only, so there it returns ONCE_UNAVAILABLE); call once_poll_fd() again. Claims and
 *   events of the parent stay the parent's: in a child their calls return ONCE_FORKED, and freeing them is allowed and
 *   does nothing.
 */
#ifndef ONCE_ONCE_H
#define ONCE_ONCE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ONCE_API __attribute__((visibility("default")))
#else
#define ONCE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Increases when something is added. Later versions keep everything of earlier ones. */
#define ONCE_ABI_VERSION 1

typedef struct once_gate once_gate;
typedef struct once_claim once_claim;

typedef struct once_bytes {
  const void* data;
  size_t size;
} once_bytes;

typedef struct once_field {
  once_bytes name;
  once_bytes value;
} once_field;

/* The result of a call. once_last_error() has the reason as text. */
typedef enum once_status {
  ONCE_OK = 0,
  ONCE_INVALID = 1,     /* an argument is wrong; nothing happened */
  ONCE_CONFIG = 2,      /* the settings are wrong: the text lists all mistakes, one per line */
  ONCE_UNAVAILABLE = 3, /* the store could not be opened */
  ONCE_STOPPED = 4,     /* after once_stop(): nothing new begins */
  ONCE_ENDED = 5,       /* the claim was already finished, abandoned or released */
  ONCE_FORKED = 6,      /* this claim or event belongs to the process before the fork */
  ONCE_TIMEOUT = 7,     /* once_wait(), once_free(): timed out */
  ONCE_NO_MEMORY = 8,
  ONCE_BROKEN = 9 /* an invariant of Once was broken; the gate does nothing more */
} once_status;

/* The reason of the last call on this thread that did not return ONCE_OK. Never NULL, valid until the next such call of
 * the thread. It never contains a secret or a password. */
ONCE_API const char* once_last_error(void);
/* "invalid", "stopped" …; never NULL. */
ONCE_API const char* once_status_name(once_status status);

/* "0.1.0" */
ONCE_API const char* once_version(void);
/* The version of the loaded library; refuse one that is lower than your ONCE_ABI_VERSION. */
ONCE_API uint32_t once_abi_version(void);

/* ---- Opening and closing ---------------------------------------------------------------------------------------- */

enum {
  ONCE_LOG_EVENTS = 0, /* log lines come as ONCE_EVENT_LOG events. At most 1,000 are queued, others are dropped */
  ONCE_LOG_STDERR = 1,
  ONCE_LOG_OFF = 2
};

typedef struct once_options {
  size_t size;
  /* The gateway's YAML file; empty: the built-in settings. Settings about sockets, such as `upstreams`, `listen`,
   * `admin`, `tls` and `claims`, have no effect and need not be set. */
  once_bytes config_file;
  /* Or the file's text (YAML or JSON). */
  once_bytes config_text;
  /* Override settings of the file, as with `once serve --set`: name "store", value "postgres://…"; name "defaults.ttl",
   * value "48h". */
  const once_field* settings;
  size_t setting_count;
  uint32_t log; /* ONCE_LOG_… */
} once_options;

/* Reads the configuration, opens the store and starts the gate's threads, which block all signals. Refuses features
 * that only a gateway has: mode: shadow, conditional.if_match, scope: life. */
ONCE_API once_status once_open(const once_options* options, once_gate** gate);

/* Stops: from now on once_begin() and similar calls return ONCE_STOPPED. Claims that are held can be finished. When the
 * last one has ended and everything is recorded, ONCE_EVENT_STOPPED comes with this tag. May be repeated. */
ONCE_API once_status once_stop(once_gate* gate, uint64_t tag);

/* Ends the gate, whatever is in progress: to end it properly, call once_stop() and wait for its event first. Claims
 * that are still held will be unknown; their handles may still be freed. Waits at most `timeout_ms` for threads and
 * connections to end; then returns ONCE_TIMEOUT and leaves the rest to end by itself. The gate is freed either way.
 * NULL is allowed. */
ONCE_API once_status once_free(once_gate* gate, uint32_t timeout_ms);

/* ---- Requests --------------------------------------------------------------------------------------------------- */

enum {
  /* The server joins fields that a client sends twice, with commas, as CGI and WSGI do. A comma in the key or in a
   * header that identifies the caller then counts as two fields, and is refused like two. */
  ONCE_REQUEST_FIELDS_JOINED = 1
};

typedef struct once_request {
  size_t size;
  once_bytes method; /* "POST" */
  /* As the client sent it, not decoded, with its query: "/payments?x=1". The fingerprint and most scopes depend on it.
   */
  once_bytes target;
  /* All fields as received, including Host, in any case. Content-Length and Transfer-Encoding may be omitted. */
  const once_field* fields;
  size_t field_count;
  once_bytes body;   /* complete; or the part that was read, if that exceeds what once_needs_body() allows */
  once_bytes peer;   /* numeric address of the client's end of the connection; empty or "unix:" for a Unix socket */
  once_bytes scheme; /* "http" (also if empty) or "https" */
  /* The caller as your program has verified it: a user id, an organisation. Empty: the route's `caller` identifies it.
   * If given, it replaces the route's `caller`. On a route whose only caller is proxy-header:NAME it replaces that
   * header, so that a gateway behind a proxy that sets the header computes the same ids. */
  once_bytes caller;
  once_bytes tls_subject; /* of a client certificate that was verified, RFC 2253; empty: none */
  once_bytes tls_issuer;
  uint32_t flags;
} once_request;

/* Whether begin needs the body of a request with this head. *max_body is the largest size; if you can read one byte
 * more, the body is too large: begin with what was read, and the reply will be 413. If *needed is 0, begin without a
 * body and do not collect one: the request has no key and passes, or is refused. `body` is ignored. */
ONCE_API once_status once_needs_body(once_gate* gate, const once_request* request, int* needed, uint64_t* max_body);

/* Ends in ONCE_EVENT_REPLY, ONCE_EVENT_CLAIM, ONCE_EVENT_PASS or, after once_cancel(), ONCE_EVENT_CANCELLED. While
 * another request with the same key is executing, it waits as the route says (in_flight, in_flight_wait), without a
 * thread. */
ONCE_API once_status once_begin(once_gate* gate, const once_request* request, uint64_t tag);

/* The client of the begin or claim_work with this tag has left. A wait for another owner ends. A claim that is just
 * being made is released. No effect afterwards: a request whose handler runs continues to its end without its client.
 * The event still comes. */
ONCE_API once_status once_cancel(once_gate* gate, uint64_t tag);

enum {
  /* The body is too large to keep, or a stream that is not collected: it is not passed and not recorded. Status and
   * fields are, and a retry gets 409 response-not-kept. Send the reply's head, then your own body. If you know its
   * length, pass a Content-Length field. Must be called before the first byte is sent. */
  ONCE_RESPONSE_BODY_NOT_KEPT = 1
};

typedef struct once_response {
  size_t size;
  int32_t status; /* 200 to 599 */
  uint32_t flags;
  once_bytes reason; /* empty: the standard phrase */
  const once_field* fields;
  size_t field_count;
  once_bytes body; /* complete, not chunked. Larger than record.max_body: not recorded, but returned in the reply */
} once_response;

/* The handler's response. The outcome is recorded, then ONCE_EVENT_REPLY comes with the reply to send: usually the
 * response itself with Idempotency-Status and so on; if the claim was lost to another attempt or the outcome could not
 * be recorded, a problem; if the handler recorded its outcome with once_finish() in its own database transaction, that
 * outcome. */
ONCE_API once_status once_finish(once_claim* claim, const once_response* response, uint64_t tag);

/* The handler ended without a response, and may have done something: the outcome is unknown. The route's on_unknown
 * decides what a retry gets. Ends in ONCE_EVENT_REPLY with the problem to send. */
ONCE_API once_status once_abandon(once_claim* claim, uint64_t tag);

/* Nothing was done and nothing will be: undoes the claim, and the next request with the key executes. Ends in
 * ONCE_EVENT_REPLY with a problem to send (503), for claims of work in ONCE_EVENT_OUTCOME. */
ONCE_API once_status once_release(once_claim* claim, uint64_t tag);

/* Sets *lost to 1 if another attempt may have taken over, because the lease could not be renewed: then later results
 * are not recorded. Never for stores that belong to one process. */
ONCE_API once_status once_claim_lost(const once_claim* claim, int* lost);

/* Free every claim once, also after it was finished. A claim that was not finished, abandoned or released is abandoned
 * (for work that is not HTTP: left to lapse), and counted as dropped. NULL is allowed. Works in any process. */
ONCE_API void once_claim_free(once_claim* claim);

/* ---- Work that is not an HTTP request ---------------------------------------------------------------------------- */

enum { ONCE_TAKEOVER = 0, ONCE_RETRY = 1, ONCE_HOLD = 2 }; /* what to do with work whose owner has died */

/* Like once::guard::Request: docs/guides/library.md explains each member. Ids are those of the library and of the
 * claims API. Times in milliseconds; 0: the default. */
typedef struct once_work {
  size_t size;
  once_bytes tenant; /* empty: "local" */
  once_bytes scope;  /* the kind of work, 1 to 255 bytes */
  once_bytes key;    /* identifies the work, 1 to 255 bytes; or: */
  once_bytes inputs; /* any JSON, compared in canonical form */
  once_bytes fingerprint;
  uint64_t ttl_ms;              /* 24 h */
  uint64_t takeover_after_ms;   /* 5 min */
  uint64_t lease_ms;            /* 30 s; renewed automatically while the claim is held */
  uint64_t wait_ms;             /* for a running owner; 0: do not wait */
  uint32_t on_unknown;          /* ONCE_TAKEOVER … */
  const once_bytes* store_only; /* members of a JSON value that may be stored; none: all */
  size_t store_only_count;
  const once_bytes* never_store; /* members that are not stored, at any level */
  size_t never_store_count;
} once_work;

/* Ends in ONCE_EVENT_CLAIM (the work is yours), ONCE_EVENT_OUTCOME, or ONCE_EVENT_CANCELLED. */
ONCE_API once_status once_claim_work(once_gate* gate, const once_work* work, uint64_t tag);
/* The work is done: records its value, as far as store_only and never_store allow. ONCE_EVENT_OUTCOME: succeeded with
 * the recorded value; or lost, not_recorded. May be called again after not_recorded. `media_type` empty:
 * application/json. */
ONCE_API once_status once_complete(once_claim* claim, once_bytes value, once_bytes media_type, uint64_t tag);
/* The work failed: the next caller repeats it. ONCE_EVENT_OUTCOME. */
ONCE_API once_status once_fail(once_claim* claim, uint64_t tag);
/* The recorded state, without claiming: ONCE_EVENT_OUTCOME, with reason "none" and status "absent" if there is none. */
ONCE_API once_status once_look(once_gate* gate, const once_work* work, uint64_t tag);
/* The recorded state of your claim: succeeded once a transaction that called once_finish() in SQL has committed. */
ONCE_API once_status once_recorded(once_claim* claim, uint64_t tag);

/* The operation id of the work, 64 hexadecimal digits and a NUL: an HMAC with the installation's secret. */
ONCE_API once_status once_compute_key(once_gate* gate, const once_work* work, char hex[65]);
/* For users' text in inputs: SHA-256 of it with normalised white space, 64 hexadecimal digits and a NUL. */
ONCE_API once_status once_hash_text(once_bytes text, char hex[65]);

/* ---- Events ------------------------------------------------------------------------------------------------------ */

typedef enum once_event_kind {
  ONCE_EVENT_REPLY = 1,     /* reply: send it */
  ONCE_EVENT_CLAIM = 2,     /* claim and claim_info: run the handler, or do the work */
  ONCE_EVENT_PASS = 3,      /* reply: add its fields to your handler's response; there is nothing to finish */
  ONCE_EVENT_OUTCOME = 4,   /* outcome: of work */
  ONCE_EVENT_CANCELLED = 5, /* after once_cancel() */
  ONCE_EVENT_SWEPT = 6,     /* removed; if the store could not be swept, outcome says why */
  ONCE_EVENT_STOPPED = 7,
  ONCE_EVENT_LOG = 8 /* log; its tag is 0 */
} once_event_kind;

/* The kind of a reply: the value of Idempotency-Status. */
enum {
  ONCE_EXECUTED = 1,
  ONCE_REPLAYED = 2,
  ONCE_IN_FLIGHT = 3,
  ONCE_MISMATCH = 4,
  ONCE_UNKNOWN = 5,
  ONCE_BYPASSED = 6,
  ONCE_REJECTED = 7, /* a problem with the request, or the store: nothing was executed */
  ONCE_PASSED = 8
};

/* How the claim of the reply ended. */
enum {
  ONCE_SETTLED_NONE = 0, /* there was no claim */
  ONCE_SETTLED_SUCCEEDED = 1,
  ONCE_SETTLED_FAILED = 2,
  ONCE_SETTLED_UNKNOWN = 3,
  ONCE_SETTLED_RELEASED = 4,
  ONCE_SETTLED_LOST = 5,      /* another attempt took it over: nothing of this one is recorded */
  ONCE_SETTLED_UNRECORDED = 6 /* the store did not accept the outcome */
};

typedef struct once_reply {
  int32_t status;
  uint32_t ending;  /* ONCE_EXECUTED … */
  uint32_t settled; /* ONCE_SETTLED_… */
  uint32_t attempt; /* 0: none */
  once_bytes reason;
  const once_field* fields; /* all to send, Content-Length among them; never Connection or Transfer-Encoding, and Date
                               only if the handler gave one: servers add those */
  size_t field_count;
  once_bytes body;
  /* 1: finished with ONCE_RESPONSE_BODY_NOT_KEPT; send the body yourself. */
  int32_t body_is_yours;
} once_reply;

typedef struct once_claim_info {
  uint32_t attempt; /* 1, 2, 3 …; 0: not protected */
  /* 1: the claim is in the store. 0: the store is down and the route has store_down: bypass. The handler runs
   * unprotected, and is finished like any other. */
  uint32_t is_protected;
  uint64_t fence;
  once_bytes token; /* Idempotency-Claim, for once_finish() in a database transaction; a capability, do not log it */
  once_bytes operation;     /* the operation id, 64 hexadecimal digits */
  once_bytes request_id;    /* empty for work */
  const once_field* fields; /* the fields that a backend would get: X-Request-Id, Idempotency-Attempt … */
  size_t field_count;
  uint64_t max_body; /* record.max_body: a larger response is not kept */
} once_claim_info;

/* The outcome of work. Names are those of docs/guides/library.md. */
typedef struct once_outcome {
  once_bytes status; /* "succeeded", "in_progress", "failed"; "absent" of once_look() */
  once_bytes reason; /* "none", "at_work", "gone", "work_failed", "lost", "not_recorded", "unknown", "mismatch", … */
  once_bytes detail; /* for people */
  once_bytes value;  /* if succeeded */
  uint32_t cached;   /* 1: done before; 0: done by this claim */
  uint32_t attempt;
  uint64_t fence;
  uint64_t retry_after_ms; /* in progress */
  int32_t code;            /* the status given to once_finish() in SQL; else 200 */
} once_outcome;

enum { ONCE_DEBUG = 0, ONCE_INFO = 1, ONCE_WARN = 2, ONCE_ERROR = 3 };

typedef struct once_log_line {
  uint32_t level;
  once_bytes line; /* one JSON object, without a newline */
} once_log_line;

/* Read-only, and yours until once_event_free(), with everything it points to except the claim, which is freed
 * separately. Members that do not belong to the kind are NULL or 0. */
typedef struct once_event {
  uint32_t kind;
  uint64_t tag;
  once_claim* claim; /* free it separately with once_claim_free() */
  const once_claim_info* claim_info;
  const once_reply* reply;
  const once_outcome* outcome;
  const once_log_line* log;
  uint64_t removed;
} once_event;

/* A descriptor that is readable while events wait for once_drain(). It belongs to the gate: do not read or close it.
 * -1: see once_last_error(). */
ONCE_API int once_poll_fd(once_gate* gate);

/* Takes up to `capacity` available events, in order, without waiting. *count is their number. */
ONCE_API once_status once_drain(once_gate* gate, once_event** events, size_t capacity, size_t* count);

/* Tags with this bit are private: their events wait for once_wait(), and once_drain() does not return them. For
 * programs with blocking threads. */
#define ONCE_PRIVATE_TAG (UINT64_C(1) << 63)
/* A private tag that this gate has not used before. */
ONCE_API uint64_t once_private_tag(once_gate* gate);

/* Waits on this thread for the event of a private tag. 0: does not wait; UINT32_MAX: no limit. ONCE_TIMEOUT: the call
 * was cancelled as by once_cancel(), and its event will be dropped; a finish is still recorded. */
ONCE_API once_status once_wait(once_gate* gate, uint64_t tag, uint32_t timeout_ms, once_event** event);

/* NULL is allowed. Does not free a claim in it. */
ONCE_API void once_event_free(once_event* event);

/* ---- Upkeep ------------------------------------------------------------------------------------------------------ */

/* Removes expired records of a SQL store now; the gate also does so by itself, once a minute or more. The other
 * stores need none: 0 are removed. ONCE_EVENT_SWEPT. */
ONCE_API once_status once_sweep(once_gate* gate, uint64_t tag);

typedef struct once_text {
  const char* data; /* with a NUL after it */
  size_t size;
} once_text;

/* All metrics in Prometheus' text format; docs/reference/metrics.md lists the names. */
ONCE_API once_status once_metrics(once_gate *gate, once_text **text);
/* The part of a JSON value that may be stored: members by name, "error.message" for one inside of another.
 * ONCE_INVALID: the JSON is invalid, or has a name twice in one object. */
ONCE_API once_status once_sanitise(once_bytes json, const once_bytes *store_only, size_t store_only_count,
                                   const once_bytes *never_store, size_t never_store_count, once_text **text);
ONCE_API void once_text_free(once_text *text);

#ifdef __cplusplus
}
#endif

#endif
