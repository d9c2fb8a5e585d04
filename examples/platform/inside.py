"""The platform without a daemon: Once is a middleware of the service, and keeps its keys in the service's own PostgreSQL.

PLATFORM_DATABASE is a postgres:// URL with Once's schema in it, PLATFORM_TOKEN_SECRET the file that tokens are signed with,
PLATFORM_ONCE the settings of Once. The API is that of main.py; the driver is asynchronous, with a pool of connections.
"""
import contextlib
import json
import os
import pathlib
import time
import uuid

import asyncpg
import jwt
import once
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from models import Act, Agent, Story, Text, Vote

TOKEN_SECRET = pathlib.Path(os.environ["PLATFORM_TOKEN_SECRET"]).read_text().strip()
TOKEN_LASTS = 3600
SKILL = (pathlib.Path(__file__).parent / "skill.md").read_text()
NOTE = ("INSERT INTO platform_requests VALUES (decode($1, 'hex'), $2, $3, $4) "
        "ON CONFLICT (operation) DO UPDATE SET endpoint = excluded.endpoint")

app = FastAPI(title="Platform", description=SKILL)


class Notes:
    """Which key of whom every keyed request is: for platform_idempotency_keys. One middleware, for all handlers."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        claim = once.current_claim()
        if claim is None:
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        request.state.user = user_of(request.headers.get("Authorization", ""))
        try:
            if request.state.user is not None:
                await self.note(request, claim)  # seen while the request is at work, too
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            await database_failed(request, error)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    async def note(self, request, claim):
        await app.state.pool.execute(NOTE, claim.operation, request.headers["X-Idempotency-Key"], request.state.user,
                                     request.url.path)


# The middleware that is added last is the outermost one.
app.add_middleware(Notes)
app.add_middleware(once.Middleware, config=os.environ["PLATFORM_ONCE"],
                   settings=json.loads(os.environ.get("PLATFORM_ONCE_SETTINGS", "{}")))


@app.on_event("startup")
async def open_pool():
    app.state.pool = await asyncpg.create_pool(os.environ["PLATFORM_DATABASE"], min_size=1, max_size=10)


@app.on_event("shutdown")
async def close_pool():
    await app.state.pool.close()


@contextlib.asynccontextmanager
async def transaction():
    async with app.state.pool.acquire() as connection, connection.transaction():
        yield connection


async def done(connection, status, answer):
    """The outcome, in the transaction that has the effect. Raises if another attempt has taken over: then nothing of it stays."""
    body = json.dumps(answer, default=str).encode()
    claim = once.current_claim()
    if claim is not None:
        headers = {"Content-Type": "application/json", "X-Request-Id": claim.request_id}
        await connection.execute("SELECT once_finish($1::text, $2::integer, $3::jsonb, $4::bytea)", claim.token, status,
                                 json.dumps(headers), body)
    return Response(body, status, media_type="application/json")


def user_of(authorization):
    """Whom a valid token names, or None."""
    scheme, _, token = authorization.partition(" ")
    with contextlib.suppress(ValueError, jwt.InvalidTokenError):
        if scheme == "Bearer":
            return uuid.UUID(jwt.decode(token, TOKEN_SECRET, algorithms=["HS256"], options={"require": ["exp", "sub"]})["sub"])
    return None


def current_user(request: Request):
    user = user_of(request.headers.get("Authorization", ""))
    if user is None:
        raise HTTPException(401, "a valid token is required", {"WWW-Authenticate": "Bearer"})
    return user


def token_for(user, **more):
    return jwt.encode({"sub": str(user), "exp": int(time.time()) + TOKEN_LASTS, **more}, TOKEN_SECRET, "HS256")


async def insert(connection, table, row):
    places = ", ".join(f"${number}" for number in range(1, len(row) + 1))
    await connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", *row.values())


async def make(user, table, **values):
    """One new row, which is the answer."""
    row = {"id": uuid.uuid4(), "user_id": user, **values}
    async with transaction() as connection:
        await insert(connection, table, row)
        return await done(connection, 201, row)


async def change(table, row, name, value, by="$1"):
    async with transaction() as connection:
        found = await connection.fetchval(f"UPDATE {table} SET {name} = {by} WHERE id = $2 RETURNING {name}", value, row)
        if found is None:
            raise HTTPException(404, "there is no such thing")
        return await done(connection, 200, {"id": row, name: found})


@app.exception_handler(asyncpg.PostgresError)
@app.exception_handler(asyncpg.InterfaceError)
@app.exception_handler(OSError)
def database_failed(_, error):
    """Perhaps it was committed, perhaps not: a retry finds out."""
    if isinstance(error, asyncpg.IntegrityConstraintViolationError):
        return JSONResponse({"detail": "that name is taken, or there is no such thing"}, 422)
    stale = getattr(error, "sqlstate", None) == "ON001"
    return JSONResponse({"detail": "another attempt has ended this" if stale else "the database is not there"}, 503)


@app.post("/api/auth/agent", status_code=201)
async def register(agent: Agent, request: Request):
    user = uuid.uuid4()
    async with transaction() as connection:
        await insert(connection, "platform_users", {"id": user, "name": agent.name})
        claim = once.current_claim()
        if claim is not None:  # there was no user to note before
            await connection.execute(NOTE, claim.operation, request.headers["X-Idempotency-Key"], user, request.url.path)
        return await done(connection, 201, {"id": user, "name": agent.name, "token": token_for(user)})


@app.post("/api/auth/refresh")
def refresh(user=Depends(current_user)):
    """Not in a transaction, so a crash in the middle is an unknown outcome: once.yaml says hold for it."""
    return {"token": token_for(user, jti=str(uuid.uuid4()))}


@app.post("/api/dwellers/{dweller}/act", status_code=201)
async def act(dweller: uuid.UUID, order: Act, user=Depends(current_user)):
    return await make(user, "platform_acts", dweller_id=dweller, action=order.action)


@app.post("/api/dwellers/{dweller}/heartbeat", status_code=201)
async def heartbeat(dweller: uuid.UUID, user=Depends(current_user)):
    return await make(user, "platform_heartbeats", dweller_id=dweller)


@app.get("/api/dwellers/{dweller}/acts")
async def acts(dweller: uuid.UUID, _=Depends(current_user)):
    rows = await app.state.pool.fetch("SELECT id, action FROM platform_acts WHERE dweller_id = $1", dweller)
    return [dict(row) for row in rows]


@app.post("/api/stories", status_code=201)
async def tell(story: Story, user=Depends(current_user)):
    return await make(user, "platform_stories", title=story.title)


@app.put("/api/stories/{story}")
async def retell(story: uuid.UUID, told: Story, _=Depends(current_user)):
    return await change("platform_stories", story, "title", told.title)


@app.post("/api/proposals", status_code=201)
async def propose(proposal: Text, user=Depends(current_user)):
    return await make(user, "platform_proposals", text=proposal.text)


@app.patch("/api/proposals/{proposal}")
async def vote(proposal: uuid.UUID, given: Vote, _=Depends(current_user)):
    return await change("platform_proposals", proposal, "votes", given.votes, by="votes + $1")


@app.post("/api/review/{kind}/{subject}/feedback", status_code=201)
async def feedback(kind: str, subject: uuid.UUID, given: Text, user=Depends(current_user)):
    return await make(user, "platform_feedback", subject_type=kind, subject_id=subject, text=given.text)


@app.get("/skill.md", response_class=PlainTextResponse)
def skill():
    return SKILL
