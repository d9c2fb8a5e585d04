"""Once: work that happens once, however often it is asked for.

- `once.send()` and `once.send_async()` send a request with one key and retry it correctly
- `once.ClaimsClient` does work once with the claims API of a gateway
"""
from once.claims import ClaimsClient
from once.results import Duration, OnceError, Result, hash_text
from once.running import Claim, Idempotent
from once.sending import Answer, NotAnswered, OnceWarning, send, send_async

__version__ = "0.1.0"
__all__ = ["Answer", "Claim", "ClaimsClient", "Duration", "Idempotent", "NotAnswered", "OnceError", "OnceWarning", "Result",
           "hash_text", "send", "send_async"]
