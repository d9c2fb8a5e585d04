"""A TCP proxy between a client and a gateway that resets the client's connection when a test says so."""
import contextlib
import re
import socket
import threading

from wire import reset

KEY = re.compile(rb"^Idempotency-Key: *([^\r]+)", re.IGNORECASE | re.MULTILINE)
LENGTH = re.compile(rb"^Content-Length: *(\d+)", re.IGNORECASE | re.MULTILINE)


class CuttingProxy:
    def __init__(self, target):
        self.target = target  # a port
        self.requests = []  # raw
        self._limits = {}  # by key: bytes that pass of its next response
        self._flowing = threading.Event()
        self._flowing.set()
        self._clients = set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self._listener.getsockname()[1]
        self.origin = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Resets the connections of all clients."""
        for client in list(self._clients):
            self._reset(client)

    def cut_after(self, key, size):
        """Resets the next connection with this key when so many bytes of the response have passed."""
        self._limits[key.encode()] = size

    def hold(self):
        """Until flow(): requests on new connections do not pass."""
        self._flowing.clear()

    def flow(self):
        self._flowing.set()

    def stop(self):
        self.flow()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _reset(self, client):
        self._clients.discard(client)
        with contextlib.suppress(OSError):  # wakes the thread that reads from it
            client.shutdown(socket.SHUT_RD)
        with contextlib.suppress(OSError):
            reset(client)

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._clients.add(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        limit = [None]  # bytes that still pass of the current response
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.target)) as gateway:
            gateway.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._upstream, args=(client, gateway, limit), daemon=True).start()
            self._downstream(client, gateway, limit)
        self._reset(client)

    def _upstream(self, client, gateway, limit):
        with contextlib.suppress(OSError):
            while request := self._read_request(client):
                self.requests.append(request)
                key = KEY.search(request)
                limit[0] = self._limits.pop(key[1], None) if key else None
                self._flowing.wait()
                gateway.sendall(request)
        # The gateway must see that its client is gone.
        with contextlib.suppress(OSError):
            gateway.shutdown(socket.SHUT_RDWR)

    def _read_request(self, client):
        """The whole of it, with its body; b"" if the client has closed."""
        request = b""
        while b"\r\n\r\n" not in request or len(request) < self._size(request):
            part = client.recv(65536)
            if not part:
                return b""
            request += part
        return request

    def _size(self, request):
        length = LENGTH.search(request)
        return request.index(b"\r\n\r\n") + 4 + (int(length[1]) if length else 0)

    def _downstream(self, client, gateway, limit):
        while part := gateway.recv(65536):
            if limit[0] is not None and len(part) >= limit[0]:
                client.sendall(part[:limit[0]])
                return
            limit[0] = None if limit[0] is None else limit[0] - len(part)
            client.sendall(part)
        client.shutdown(socket.SHUT_WR)  # it was the gateway that closed
