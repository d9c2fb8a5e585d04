"""A backend that keeps documents and knows nothing of conditions: what GET returns is what PUT left."""
import threading


class Documents:
    """Its handle() is a backend's handler. Hooks let a test stop it where it matters."""

    def __init__(self, **documents):
        self.documents = {f"/{name}": value for name, value in documents.items()}
        self.type = "text/plain"
        self.fields = []  # of every answer to GET
        self.on_get = lambda request: None
        self.on_write = lambda request: None
        self.writes = []
        self._lock = threading.Lock()

    def handle(self, request, to):
        path = request.target.split("?")[0]
        if request.method in ("GET", "HEAD"):
            self.on_get(request)
            with self._lock:
                value = self.documents.get(path)
            if value is None:
                return to.reply(404, body=b"no such document")
            return to.reply(200, [("Content-Type", self.type), *self.fields], value)
        self.on_write(request)
        with self._lock:
            self.writes.append(request)
            if request.method == "DELETE":
                self.documents.pop(path, None)
            else:
                self.documents[path] = request.body
        return to.reply(200, [("Content-Type", "text/plain")], b"written")
