"""A TCP proxy that makes trouble: it delays, stalls, cuts answers off in the middle, or refuses connections."""
import contextlib
import random
import socket
import threading

from wire import reset


class FaultProxy:
    def __init__(self, target, seed):
        self.target = target  # a port
        self.delay = 0.0  # seconds for each piece, both ways
        self.cutting = 0.0  # how likely it is for a piece of an answer to be the last, and cut
        self.cuts = 0
        self._flowing = threading.Event()
        self._flowing.set()
        self._over = threading.Event()
        self._drawn = random.Random(seed)
        self._socks = set()
        self._listener = None
        self.port = 0
        self.listen()

    def listen(self):
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=512)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def refuse(self):
        """Until listen(): no new connections, and the others are cut."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in list(self._socks):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def stall(self):
        """Until flow(): nothing passes. What came in meanwhile passes then, even if its sender is gone."""
        self._flowing.clear()

    def flow(self):
        self._flowing.set()

    def stop(self):
        self._over.set()
        self._flowing.set()
        self.refuse()

    def _accept(self, listener):
        while True:
            try:
                gateway, _ = listener.accept()
            except OSError:
                return
            try:
                backend = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                reset(gateway)
                continue
            pair = (gateway, backend)
            for sock in pair:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._socks.add(sock)
            ends = threading.Semaphore(0)
            for source, sink in (pair, reversed(pair)):
                threading.Thread(target=self._pump, args=(source, sink, source is backend, ends), daemon=True).start()
            threading.Thread(target=self._close, args=(pair, ends), daemon=True).start()

    def _close(self, pair, ends):
        for _ in pair:
            ends.acquire()
        for sock in pair:
            self._socks.discard(sock)
            sock.close()

    def _pump(self, source, sink, is_answer, ends):
        try:
            while data := source.recv(65536):
                if self.delay:
                    self._over.wait(self.delay)
                self._flowing.wait()
                if is_answer and self._drawn.random() < self.cutting:
                    self.cuts += 1
                    sink.sendall(data[:self._drawn.randint(0, len(data) - 1)])
                    source.shutdown(socket.SHUT_RDWR)
                    break
                sink.sendall(data)
        except OSError:
            pass
        finally:
            with contextlib.suppress(OSError):
                sink.shutdown(socket.SHUT_RDWR if is_answer else socket.SHUT_WR)
            ends.release()
