"""Clients that never stop asking, for tests of what goes on beside them."""
import collections
import threading

from wire import Client, wait_until


class Traffic:
    """Keyed requests from several clients, one after the other on connections that are kept as long as they may be. None
    is tried again: whatever does not get its 201 is a failure. With `replays` each is asked for a second time, and must
    get the recorded answer."""

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
        client, asked = None, 0
        while not self._over.is_set() and not self.failures:
            key = f"client-{number}-{asked}"
            asked += 1
            try:
                client = client or Client(self.port)
                # Every third request ends its connection, so that new ones are made all the time.
                fields = self.fields + ([("Connection", "close")] if asked % 3 == 0 else [])
                for expected in self.expected:
                    last = expected == self.expected[-1]
                    response = client.ask(target=self.target, key=key, fields=fields if last else self.fields, body=self.body)
                    if (response.status, response.get("Idempotency-Status")) != (201, expected):
                        self.failures.append((key, response.status, response.fields, response.body))
                self.answered.append(key)
                if response.get("Connection") == "close":
                    client.close()
                    client = None
            except (OSError, EOFError) as error:
                self.failures.append((key, repr(error)))
        if client is not None:
            client.close()


def executions_by_key(backend):
    """How often each key was executed."""
    return collections.Counter(request.get("Idempotency-Key") for request in backend.executions())
