#!/usr/bin/python3
"""A backend that moves money exactly once: the effect and the response are committed together, in one transaction.

    ledger.py --database postgres://… | mysql://…  [--port 9000]

The three lines that matter are in Ledger.transfer(). Everything else is an ordinary service.
"""
import argparse
import contextlib
import http.server
import json
import urllib.parse
import uuid

STALE_CLAIM = {"ON001", 31001, 31003}  # what once_finish() raises: a SQLSTATE in PostgreSQL, error numbers in MySQL


class Refused(Exception):
    """The order is invalid; nothing was done."""


def connect(url):
    parts = urllib.parse.urlsplit(url)
    if parts.scheme in ("postgres", "postgresql"):
        import psycopg2
        return psycopg2.connect(url)
    import pymysql
    return pymysql.connect(host=parts.hostname, port=parts.port or 3306, user=parts.username, password=parts.password or "",
                           database=parts.path[1:])


class Ledger:
    def __init__(self, url):
        self.url = url
        self.finish_call = "SELECT" if url.startswith("postgres") else "CALL"

    @contextlib.contextmanager
    def transaction(self):
        """Commits when the block succeeds, otherwise rolls back."""
        connection = connect(self.url)
        try:
            yield connection.cursor()
            connection.commit()
        finally:
            connection.close()

    def transfer(self, claim, order):
        """Books one transfer, and records the response in the same transaction."""
        answer = json.dumps({"transfer": str(uuid.uuid4()), **order}).encode()
        with self.transaction() as cursor:
            self.book(cursor, json.loads(answer))
            self.finish(cursor, claim, 201, answer)
        return 201, answer

    def book(self, cursor, transfer):
        source, target, amount = transfer["from"], transfer["to"], transfer["amount"]
        cursor.execute("INSERT INTO transfers (id, reference, source, target, amount) VALUES (%s, %s, %s, %s, %s)",
                       (transfer["transfer"], transfer["reference"], source, target, amount))
        # Always lock in the same order, so that two transfers cannot deadlock.
        for account, change in sorted(((source, -amount), (target, amount))):
            cursor.execute("UPDATE accounts SET balance = balance + %s WHERE name = %s", (change, account))
            if cursor.rowcount != 1:
                raise Refused(f"there is no account {account}")

    def finish(self, cursor, claim, status, body):
        """Raises if another attempt has taken over; the transaction is then rolled back."""
        cursor.execute(f"{self.finish_call} once_finish(%s, %s, %s, %s)",
                       (claim, status, json.dumps({"Content-Type": "application/json"}), body))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    ledger = None

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        try:
            order = json.loads(body)
            order = {name: order[name] for name in ("reference", "from", "to", "amount")}
            status, answer = self.ledger.transfer(self.headers["Idempotency-Claim"], order)
        except (ValueError, KeyError, TypeError) as error:
            status, answer = 400, json.dumps({"error": f"not a transfer: {error}"}).encode()
        except Refused as error:
            status, answer = 422, json.dumps({"error": str(error)}).encode()
        except Exception as error:  # of either driver
            status, answer = 500, json.dumps({"error": self.reason(error)}).encode()
        self.reply(status, answer)

    def reason(self, error):
        if getattr(error, "pgcode", None) in STALE_CLAIM or error.args[:1] and error.args[0] in STALE_CLAIM:
            return "another attempt has taken this operation over, or has ended it; nothing was done"
        return type(error).__name__

    def reply(self, status, answer):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        """The gateway has an access log."""


def serve(ledger, port):
    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 128

    handler = type("LedgerHandler", (Handler,), {"ledger": ledger})
    with Server(("127.0.0.1", port), handler) as server:
        print(f"listening on {server.server_address[1]}", flush=True)
        server.serve_forever()


def options():
    parser = argparse.ArgumentParser(description="Moves money exactly once, behind Once.")
    parser.add_argument("--database", required=True, help="postgres://… or mysql://…, with Once's schema in it")
    parser.add_argument("--port", type=int, default=9000)
    return parser.parse_args()


if __name__ == "__main__":
    given = options()
    serve(Ledger(given.database), given.port)
