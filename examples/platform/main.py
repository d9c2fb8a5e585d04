"""A platform where agents act. The effect of an act and its response are committed together, so a retry never acts twice.

PLATFORM_DATABASE is a postgres:// URL with Once's schema in it, PLATFORM_TOKEN_SECRET the file that tokens are signed with.
What has to do with Once is in Work and note_key; everything else is an ordinary service.
"""
import contextlib
import json
import os
import pathlib
import time
import uuid

import jwt
import psycopg2
import psycopg2.extras
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, PlainTextResponse
from models import Act, Agent, Story, Text, Vote

DATABASE = os.environ["PLATFORM_DATABASE"]
TOKEN_SECRET = pathlib.Path(os.environ["PLATFORM_TOKEN_SECRET"]).read_text().strip()
TOKEN_LASTS = 3600
SKILL = (pathlib.Path(__file__).parent / "skill.md").read_text()

psycopg2.extras.register_uuid()
app = FastAPI(title="Platform", description=SKILL)


@contextlib.contextmanager
def transaction():
    """Commits when the block succeeds, otherwise rolls back."""
    connection = psycopg2.connect(DATABASE)
    try:
        yield connection.cursor()
        connection.commit()
    finally:
        connection.close()


class Work:
    """One request: its transaction, its user and its response."""

    def __init__(self, cursor, request):
        self.cursor = cursor
        self.request = request
        self.claim = request.headers.get("Idempotency-Claim")  # from Once, if the request has a key

    def note(self, user):
        """Notes the key and the user, for platform_idempotency_keys."""
        if self.claim:
            self.cursor.execute(
                "INSERT INTO platform_requests VALUES (decode(%s, 'hex'), %s, %s, %s) "
                "ON CONFLICT (operation) DO UPDATE SET endpoint = excluded.endpoint",
                (self.claim.split(".")[0], self.request.headers["X-Idempotency-Key"], user, self.request.url.path))

    def insert(self, table, **values):
        columns, places = ", ".join(values), ", ".join(["%s"] * len(values))
        self.cursor.execute(f"INSERT INTO {table} ({columns}) VALUES ({places})", tuple(values.values()))

    def done(self, status, answer):
        """Raises if another attempt has taken over; the transaction is then rolled back."""
        body = json.dumps(answer, default=str)
        if self.claim:
            headers = {"Content-Type": "application/json", "X-Request-Id": self.request.headers["X-Request-Id"]}
            self.cursor.execute("SELECT once_finish(%s, %s, %s, %s)", (self.claim, status, json.dumps(headers), body))
        return Response(body, status, media_type="application/json")


def user_of(request):
    """Whom a valid token names, or None. Once has verified it for requests with a key, but not for others."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    with contextlib.suppress(ValueError, jwt.InvalidTokenError):
        if scheme == "Bearer":
            return uuid.UUID(jwt.decode(token, TOKEN_SECRET, algorithms=["HS256"], options={"require": ["exp", "sub"]})["sub"])
    return None


def current_user(request: Request):
    user = user_of(request)
    if user is None:
        raise HTTPException(401, "a valid token is required", {"WWW-Authenticate": "Bearer"})
    return user


@contextlib.contextmanager
def work(request):
    with transaction() as cursor:
        yield Work(cursor, request)


@app.middleware("http")
async def note_key(request: Request, call_next):
    """Notes every request with a key before its handler runs, so that the view shows it while it is at work."""
    user = user_of(request)
    if user is not None and "Idempotency-Claim" in request.headers:
        try:
            await run_in_threadpool(note, request, user)
        except psycopg2.Error as error:
            return database_failed(request, error)
    return await call_next(request)


def note(request, user):
    with work(request) as at:
        at.note(user)


def make(request, user, table, **values):
    """Inserts one row and returns it as the response."""
    row = {"id": uuid.uuid4(), "user_id": user, **values}
    with work(request) as at:
        at.insert(table, **row)
        return at.done(201, row)


def change(request, table, row, **values):
    with work(request) as at:
        settings = ", ".join(f"{name} = {name} + %s" if name == "votes" else f"{name} = %s" for name in values)
        at.cursor.execute(f"UPDATE {table} SET {settings} WHERE id = %s RETURNING {', '.join(values)}",
                          (*values.values(), row))
        found = at.cursor.fetchone()
        if found is None:
            raise HTTPException(404, "there is no such thing")
        return at.done(200, {"id": row, **dict(zip(values, found))})


@app.exception_handler(psycopg2.Error)
def database_failed(_, error):
    """The transaction may have been committed or not: a retry finds out."""
    stale = getattr(error, "pgcode", None) == "ON001"
    if isinstance(error, psycopg2.IntegrityError):
        return JSONResponse({"detail": "that name is taken, or there is no such thing"}, 422)
    return JSONResponse({"detail": "another attempt has ended this" if stale else "the database is not there"}, 503)


@app.post("/api/auth/agent", status_code=201)
def register(agent: Agent, request: Request):
    user = uuid.uuid4()
    token = jwt.encode({"sub": str(user), "exp": int(time.time()) + TOKEN_LASTS}, TOKEN_SECRET, "HS256")
    with work(request) as at:
        at.insert("platform_users", id=user, name=agent.name)
        at.note(user)  # there was no user to note before
        return at.done(201, {"id": user, "name": agent.name, "token": token})


@app.post("/api/auth/refresh")
def refresh(user=Depends(current_user)):
    return {"token": jwt.encode({"sub": str(user), "exp": int(time.time()) + TOKEN_LASTS, "jti": str(uuid.uuid4())},
                                TOKEN_SECRET, "HS256")}


@app.post("/api/dwellers/{dweller}/act", status_code=201)
def act(dweller: uuid.UUID, order: Act, request: Request, user=Depends(current_user)):
    return make(request, user, "platform_acts", dweller_id=dweller, action=order.action)


@app.post("/api/dwellers/{dweller}/heartbeat", status_code=201)
def heartbeat(dweller: uuid.UUID, request: Request, user=Depends(current_user)):
    return make(request, user, "platform_heartbeats", dweller_id=dweller)


@app.get("/api/dwellers/{dweller}/acts")
def acts(dweller: uuid.UUID, _=Depends(current_user)):
    with transaction() as cursor:
        cursor.execute("SELECT id, action FROM platform_acts WHERE dweller_id = %s", (dweller,))
        return [{"id": row, "action": action} for row, action in cursor]


@app.post("/api/stories", status_code=201)
def tell(story: Story, request: Request, user=Depends(current_user)):
    return make(request, user, "platform_stories", title=story.title)


@app.put("/api/stories/{story}")
def retell(story: uuid.UUID, told: Story, request: Request, _=Depends(current_user)):
    return change(request, "platform_stories", story, title=told.title)


@app.post("/api/proposals", status_code=201)
def propose(proposal: Text, request: Request, user=Depends(current_user)):
    return make(request, user, "platform_proposals", text=proposal.text)


@app.patch("/api/proposals/{proposal}")
def vote(proposal: uuid.UUID, given: Vote, request: Request, _=Depends(current_user)):
    return change(request, "platform_proposals", proposal, votes=given.votes)


@app.post("/api/review/{kind}/{subject}/feedback", status_code=201)
def feedback(kind: str, subject: uuid.UUID, given: Text, request: Request, user=Depends(current_user)):
    return make(request, user, "platform_feedback", subject_type=kind, subject_id=subject, text=given.text)


@app.get("/skill.md", response_class=PlainTextResponse)
def skill():
    return SKILL
