"""Once: work that happens once, however often it is asked for.

- `once.Middleware` for ASGI (FastAPI, Starlette), `once.wsgi.Middleware` (Flask), `once.django.Middleware`: requests with an
  idempotency key are executed once, and retries get the recorded response
- `once.Guard` and `@once.idempotent`: work that is not a request
- `once.send()` and `once.send_async()`: a request with one key, retried correctly
- `once.stream()` and `once.stream_async()`: the same for a response that streams, continued if the connection breaks
- `once.stop_stream()` and `once.stop_stream_async()`: end such a request at the backend
- `once.ClaimsClient`: work that is done once with the claims API of a gateway, and whose progress others follow
"""
from once import wsgi
from once.asgi import Middleware
from once.claims import ClaimsClient
from once.current import current_claim
from once.events import Handle, Passed, Reply
from once.following import Following, Piece
from once.gate import Gate, Request
from once.guard import Guard, configure, idempotent
from once.results import Duration, OnceError, Result, hash_text
from once.running import Claim, Idempotent
from once.sending import Answer, NotAnswered, OnceWarning, send, send_async
from once.server_sent import ServerSentEvent
from once.stopping import NotStopped, stop_stream, stop_stream_async
from once.streaming import AsyncStream, Stream, StreamBroken, stream, stream_async

__version__ = "0.1.0"
__all__ = ["Answer", "AsyncStream", "Claim", "ClaimsClient", "Duration", "Following", "Gate", "Guard", "Handle", "Idempotent",
           "Middleware", "NotAnswered", "NotStopped", "OnceError", "OnceWarning", "Passed", "Piece", "Reply", "Request", "Result",
           "ServerSentEvent", "Stream", "StreamBroken", "configure", "current_claim", "hash_text", "idempotent", "send",
           "send_async", "stop_stream", "stop_stream_async", "stream", "stream_async", "wsgi"]
