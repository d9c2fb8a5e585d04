/* Passes events of libonce to JavaScript. */
#ifndef ONCE_NODE_EVENTS_H
#define ONCE_NODE_EVENTS_H

#include "gate.h"

/* Calls deliver(kind, tag, …) with the members of the event; native.ts has the order for each kind. */
void deliver_event(struct gate* gate, const once_event* event);

napi_value latin1_value(napi_env env, once_bytes text);

#endif
