/* The few functions of libuv 1 that the addon calls. Node exports them, so its headers are not needed. libuv keeps its
 * binary interface throughout version 1, which addon.c checks. */
#ifndef ONCE_NODE_UV_H
#define ONCE_NODE_UV_H

#include <stddef.h>

typedef struct uv_loop_s uv_loop_t;
typedef struct uv_handle_s uv_handle_t;
typedef struct uv_handle_s uv_poll_t; /* opaque: libuv reports its size */

enum { ONCE_UV_POLL = 8, ONCE_UV_READABLE = 1 };

unsigned int uv_version(void);
size_t uv_handle_size(int type);
void uv_handle_set_data(uv_handle_t* handle, void* data);
void* uv_handle_get_data(const uv_handle_t* handle);
int uv_poll_init(uv_loop_t* loop, uv_poll_t* handle, int fd);
int uv_poll_start(uv_poll_t* handle, int events, void (*ready)(uv_poll_t* handle, int status, int events));
int uv_poll_stop(uv_poll_t* handle);
void uv_close(uv_handle_t* handle, void (*closed)(uv_handle_t* handle));
void uv_ref(uv_handle_t* handle);
void uv_unref(uv_handle_t* handle);

#endif
