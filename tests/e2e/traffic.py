"""Clients that never stop asking, for tests of what goes on beside them."""
import collections
import threading
import time

from wire import Client, wait_until


class Traffic:
    """Keyed requests from several clients, one after the other on connections that are kept as long as they may be. None
    is tried again: whatever does not get its 201 is a failure. With `replays` each is asked for a second time, and must
    get the recorded answer. But a connection on which a client stood still for a while may be closed for idling."""

    IDLE = 0.3  # seconds; a gateway that hands over closes what idles for a second

    def __init__(self, port, clients=6, target="/", fields=(), body=None, replays=False):
        self.port = port
        self.target = target
        self.fields = list(fields)
        self.body = body
        self.expected = ("executed", "replayed") if replays else ("executed",)
        self.failures = []
        self.answered = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(clients)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        self.more(20)
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join()

    def more(self, count):
        """Returns when so many more requests were answered."""
        before = len(self.answered)
        wait_until(lambda: self.failures or len(self.answered) >= before + count, what=f"{count} more answers")

    def _run(self, number):
        connection, asked = Connection(self.port), 0
        while not self._over.is_set() and not self.failures:
            key = f"client-{number}-{asked}"
            asked += 1
            # Every third request ends its connection, so that new ones are made all the time.
            fields = self.fields + ([("Connection", "close")] if asked % 3 == 0 else [])
            for expected in self.expected:
                last = expected == self.expected[-1]
                wanted = {"target": self.target, "key": key, "fields": fields if last else self.fields, "body": self.body}
                try:
                    response = connection.ask(**wanted)
                except (OSError, EOFError) as error:
                    self.failures.append((key, repr(error)))
                    break
                if (response.status, response.get("Idempotency-Status")) != (201, expected):
                    self.failures.append((key, response.status, response.fields, response.body))
            else:
                self.answered.append(key)
        connection.close()


class Connection:
    """Kept for as long as it may be."""

    def __init__(self, port):
        self.port = port
        self.client = None
        self.answered = 0.0  # when

    def close(self):
        if self.client is not None:
            self.client.close()
        self.client = None

    def ask(self, **wanted):
        if self.client is None:
            self.client = Client(self.port)
            self.answered = time.monotonic()
        self.client.log.clear()
        idled = False
        try:
            try:
                self.client.send_request(**wanted)
            finally:
                idled = time.monotonic() > self.answered + Traffic.IDLE
            response = self.client.read_response()
        except (OSError, EOFError):
            closed = not self.client.log  # without a byte of an answer
            self.close()
            if idled and closed:
                return self.ask(**wanted)
            raise
        self.answered = time.monotonic()
        if response.get("Connection") == "close":
            self.close()
        return response


def executions_by_key(backend):
    """How often each key was executed."""
    return collections.Counter(request.get("Idempotency-Key") for request in backend.executions())
