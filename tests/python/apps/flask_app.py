"""Flask with the WSGI middleware."""
import deeds
import once
from flask import Flask, Response, jsonify, request

app = Flask(__name__)
app.wsgi_app = once.wsgi.Middleware(app.wsgi_app, settings=deeds.SETTINGS, caller=lambda environ: environ.get("HTTP_X_USER"))


@app.post("/orders")
def order():
    claim = once.current_claim()
    answer = jsonify(order=deeds.execute(), attempt=claim and claim.attempt, bytes=len(request.get_data()),
                     told=request.headers.get("Idempotency-Attempt"), claim=bool(request.headers.get("Idempotency-Claim")))
    answer.headers["X-Made"] = "yes"
    return answer, 201


@app.post("/slow")
def slow():
    number = deeds.execute()
    deeds.wait_to_go()
    return jsonify(order=number)


@app.post("/broken")
def broken():
    raise RuntimeError(f"execution {deeds.execute()}")


@app.post("/large")
def large():
    deeds.execute()
    return Response((b"x" * 1024 for _ in range(64)), mimetype="text/plain")


@app.post("/events")
def events():
    deeds.execute()

    def lines():
        yield b"data: first\n\n"
        deeds.wait_to_go()
        yield b"data: last\n\n"

    return Response(lines(), mimetype="text/event-stream")


@app.get("/ping")
def ping():
    return jsonify(pong=True)
