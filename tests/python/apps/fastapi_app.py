"""FastAPI with the ASGI middleware."""
import asyncio

import deeds
import once
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

app = FastAPI()
app.add_middleware(once.Middleware, settings=deeds.SETTINGS, caller=lambda scope: dict(scope["headers"]).get(b"x-user", b"").decode() or None)


@app.post("/orders", status_code=201)
async def order(request: Request):
    claim = once.current_claim()
    body = await request.body()
    return JSONResponse({"order": deeds.execute(), "attempt": claim and claim.attempt, "bytes": len(body),
                         "told": request.headers.get("Idempotency-Attempt"), "claim": bool(request.headers.get("Idempotency-Claim"))},
                        201, headers={"X-Made": "yes"})


@app.post("/threaded")
def threaded():
    """A sync handler runs in a thread; it finds its claim there, too."""
    return {"order": deeds.execute(), "attempt": once.current_claim().attempt}


@app.post("/slow")
async def slow():
    number = deeds.execute()
    while not deeds.may_go():
        await asyncio.sleep(0.005)
    return {"order": number}


@app.post("/broken")
async def broken():
    raise RuntimeError(f"execution {deeds.execute()}")


@app.post("/large")
async def large():
    deeds.execute()

    async def chunks():
        for _ in range(64):
            yield b"x" * 1024

    return StreamingResponse(chunks(), media_type="text/plain")


@app.post("/events")
async def events():
    deeds.execute()

    async def lines():
        yield b"data: first\n\n"
        while not deeds.may_go():
            await asyncio.sleep(0.005)
        yield b"data: last\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")


@app.get("/ping")
async def ping():
    return {"pong": True}
