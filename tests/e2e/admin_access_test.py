"""Who may use the admin interface, and what a page of somebody else can do with it: nothing."""
import contextlib
import json
import os
import re
import socket
import subprocess
import unittest

from harness import Sharing, run_once
from wire import Client

TOKEN = "a-token-that-is-long-enough"
CHANGE = ("Once-Admin", "1")
OPEN = ("/healthz", "/readyz")
PAGE = ("/", "/style.css", "/main.js", "/icon.svg")
DATA = ("/metrics", "/v1/stats", "/v1/history", "/v1/events", "/unknown")


class AdminAccess(Sharing):
    def setUp(self):
        super().setUp()
        self.upstream = self.backend()

    def with_token(self, *settings, **named):
        return self.gateway(self.upstream, f"admin_token={TOKEN}", *settings, **named)

    def bearer(self, token=TOKEN):
        return ("Authorization", f"Bearer {token}")

    def login(self, gateway, token=TOKEN, fields=(CHANGE,)):
        return gateway.admin("/v1/login", "POST", fields, json.dumps({"token": token}).encode())

    def session(self, gateway):
        answer = self.login(gateway)
        self.assertEqual(answer.status, 204)
        return ("Cookie", answer.get("Set-Cookie").split(";")[0])

    def listen(self, gateway, *fields):
        """A connection that hears events; the head of the answer."""
        client = Client(gateway.admin_port)
        self.addCleanup(client.close)
        client.send_request("GET", "/v1/events", [("Host", "localhost"), *fields])
        first, got, _ = client.read_head()
        return client, int(first.split()[1]), dict((name.lower(), value) for name, value in got)

    def read_event(self, client):
        lines = client.read_until(b"\n\n").decode().strip().splitlines()
        return dict(line.split(": ", 1) for line in lines)


class Commands(AdminAccess):
    def test_no_proxy_hears_of_the_token_or_decides_about_health(self):
        proxy = self.backend(lambda _, to: to.reply(200, body=b"ok"), own=True)
        gateway = self.with_token(own=True)
        address = f"127.0.0.1:{gateway.admin_port}"
        names = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
        environment = {name: value for name, value in os.environ.items() if name.lower() != "no_proxy"}
        environment |= {name: f"http://127.0.0.1:{proxy.port}" for name in names} | {"ONCE_ADMIN_TOKEN": TOKEN}
        for command in (("health",), ("health", "--ready"), ("keys", "list"), ("reload",)):
            done = run_once(*command, "--admin", address, env=environment)
            self.assertEqual(done.returncode, 0, (command, done.stderr))
        self.assertEqual(proxy.requests, [])
        gateway.stop()
        done = run_once("health", "--admin", address, env=environment)
        self.assertEqual((done.returncode, "no answer from" in done.stderr), (1, True), "the proxy would say 200")
        sent = run_once("send", "POST", "http://once.test/pay", "-d", "x", env=environment)
        self.assertEqual((sent.returncode, len(proxy.requests)), (0, 1), "once send uses the proxies that are set")

    def test_commands_say_how_to_give_the_token(self):
        gateway = self.with_token(own=True)
        address = f"127.0.0.1:{gateway.admin_port}"
        plain = {name: value for name, value in os.environ.items() if name != "ONCE_ADMIN_TOKEN"}
        for command in (("keys", "list"), ("reload",)):
            done = run_once(*command, "--admin", address, env=plain)
            self.assertEqual(done.returncode, 1)
            self.assertIn("set it with --token-file FILE or in ONCE_ADMIN_TOKEN", done.stderr)
            done = run_once(*command, "--admin", address, env={**plain, "ONCE_ADMIN_TOKEN": "wrong" * 8})
            self.assertIn("read from ONCE_ADMIN_TOKEN; --token-file FILE takes precedence", done.stderr)
            self.assertNotIn("wrongwrong", done.stderr)
            done = run_once(*command, "--admin", address, "--token-file", "/nowhere/at/all", env=plain)
            self.assertEqual((done.returncode, done.stderr),
                             (2, "once: --token-file: /nowhere/at/all cannot be read: No such file or directory\n"))

    def test_health_sends_no_token(self):
        seen = []
        somebody = self.backend(lambda request, to: (seen.append(request.get("Authorization")), to.reply(200)))
        done = run_once("health", "--admin", f"127.0.0.1:{somebody.port}",
                        env={**os.environ, "ONCE_ADMIN_TOKEN": TOKEN})
        self.assertEqual((done.returncode, seen), (0, [None]))


class OnLoopback(AdminAccess):
    def test_without_a_token_everything_is_open_to_this_machine(self):
        gateway = self.gateway(self.upstream)
        for path in (*OPEN, *PAGE, "/metrics", "/v1/stats", "/v1/history"):
            for host in ("localhost", f"localhost:{gateway.admin_port}", "127.0.0.1:1", "[::1]", "LOCALHOST"):
                self.assertEqual(gateway.admin(path, fields=[("Host", host)]).status, 200, (path, host))
        self.assertFalse(json.loads(gateway.admin("/v1/stats").body)["needs_token"])
        self.assertEqual(self.login(gateway).status, 400)

    def test_a_name_that_leads_here_is_not_ours(self):
        gateway = self.gateway(self.upstream)
        for host in ("page.test", "localhost.page.test", "127.0.0.1.page.test", "page.test:80", "localhostx"):
            for path in (*PAGE, *DATA):
                self.assertEqual(gateway.admin(path, fields=[("Host", host)]).code, "forbidden", (path, host))
            for path in OPEN:
                self.assertEqual(gateway.admin(path, fields=[("Host", host)]).status, 200)

    def test_pages_of_other_origins_get_nothing(self):
        gateway = self.gateway(self.upstream)
        port = gateway.admin_port
        host = ("Host", f"localhost:{port}")
        for origin in ("http://page.test", "null", "http://localhost", f"http://localhost:{port + 1}", f"http://127.0.0.1:{port}"):
            for path in DATA:
                self.assertEqual(gateway.admin(path, fields=[host, ("Origin", origin)]).code, "forbidden", (path, origin))
            answer = gateway.admin("/v1/reload", "POST", [host, CHANGE, ("Origin", origin)], b"")
            self.assertEqual(answer.code, "forbidden", origin)
            self.assertIsNone(answer.get("Access-Control-Allow-Origin"))
        self.assertEqual(gateway.admin("/v1/stats", fields=[host, ("Origin", f"http://localhost:{port}")]).status, 200)
        for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
            self.assertEqual(gateway.admin("/v1/stats", fields=[host, ("Sec-Fetch-Site", site)]).status, status, site)
            self.assertEqual(gateway.admin("/", fields=[host, ("Sec-Fetch-Site", site)]).status, 200, site)

    def test_a_change_says_that_it_is_one(self):
        gateway = self.gateway(self.upstream)
        for fields in ([], [("Once-Admin", "0")], [CHANGE, CHANGE]):
            self.assertEqual(gateway.admin("/v1/reload", "POST", fields, b"").status, 400, fields)
        self.assertEqual(gateway.admin("/v1/logout", "POST", [], b"").status, 400)
        preflight = [("Origin", "http://page.test"), ("Access-Control-Request-Method", "POST"),
                     ("Access-Control-Request-Headers", "once-admin")]
        answer = gateway.admin("/v1/reload", "OPTIONS", preflight)
        self.assertEqual(answer.status, 403)
        self.assertEqual([name for name, _ in answer.fields if name.lower().startswith("access-control")], [])
        self.assertEqual([line for line in gateway.log_lines() if line["message"] == "reloaded"], [])


class WithToken(AdminAccess):
    def test_only_health_and_the_page_itself_are_open(self):
        gateway = self.with_token()
        for path in (*OPEN, *PAGE):
            self.assertEqual(gateway.admin(path, fields=[("Host", "gateway.internal")]).status, 200, path)
        for path in DATA:
            answer = gateway.admin(path)
            self.assertEqual((answer.status, answer.code), (401, "unauthorized"), path)
            self.assertEqual(answer.get("WWW-Authenticate"), 'Bearer realm="once"')
        self.assertEqual(gateway.admin("/v1/reload", "POST", [CHANGE], b"").status, 401)
        self.assertEqual(gateway.admin("/metrics", fields=[self.bearer(), ("Host", "gateway.internal")]).status, 200)
        self.assertEqual(gateway.admin("/v1/reload", "POST", [CHANGE, self.bearer()], b"").status, 200)
        self.assertEqual(gateway.admin("/v1/reload", "POST", [self.bearer()], b"").status, 400)

    def test_a_session_begins_with_the_token_and_ends_with_logout(self):
        gateway = self.with_token()
        answer = self.login(gateway)
        cookie = answer.get("Set-Cookie")
        self.assertRegex(cookie, rf"^once_admin_session_{gateway.admin_port}=[0-9a-f]{{64}}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict$")
        mine = ("Cookie", "theme=x; " + cookie.split(";")[0])
        self.assertEqual(gateway.admin("/v1/stats", fields=[mine]).status, 200)
        self.assertEqual(gateway.admin("/v1/stats", fields=[("Cookie", mine[1][:-1])]).status, 401)
        other = self.session(gateway)
        self.assertNotEqual(other[1], cookie.split(";")[0])
        # The cookie alone changes nothing, and nobody else's page can use it.
        self.assertEqual(gateway.admin("/v1/reload", "POST", [mine], b"").status, 400)
        self.assertEqual(gateway.admin("/v1/reload", "POST", [mine, CHANGE, ("Origin", "http://page.test")], b"").status, 403)
        self.assertEqual(gateway.admin("/v1/stats", fields=[mine, ("Sec-Fetch-Site", "same-site")]).status, 403)
        ended = gateway.admin("/v1/logout", "POST", [mine, CHANGE], b"")
        self.assertEqual(ended.status, 204)
        self.assertIn("Max-Age=0", ended.get("Set-Cookie"))
        self.assertEqual(gateway.admin("/v1/stats", fields=[mine]).status, 401)
        self.assertEqual(gateway.admin("/v1/stats", fields=[other]).status, 200)

    def test_no_backend_sees_a_session(self):
        """A browser sends a cookie to every port of the host, so the admin interface's come to the gateway."""
        gateway = self.with_token()
        name, session = self.session(gateway)
        for key in (None, "k"):
            gateway.ask(key=key, fields=[(name, f"theme=dark; {session}; lang=en")])
            gateway.ask(key=key and key + "2", fields=[(name, session)])
        self.assertEqual([request.all("Cookie") for request in self.upstream.requests], [["theme=dark; lang=en"], []] * 2)

    def test_a_login_must_be_a_login(self):
        gateway = self.with_token()
        self.assertEqual(self.login(gateway, fields=()).status, 400)
        self.assertEqual(self.login(gateway, fields=[CHANGE, ("Origin", "http://page.test")]).status, 403)
        self.assertEqual(gateway.admin("/v1/login", "GET").status, 405)
        for body in (b"", b"{}", b"[]", b'{"token": 1}', b"token=" + TOKEN.encode()):
            self.assertEqual(gateway.admin("/v1/login", "POST", [CHANGE], body).status, 400, body)
        self.assertEqual(self.login(gateway, "wrong").code, "unauthorized")

    def test_after_too_many_wrong_tokens_none_is_looked_at_for_a_while(self):
        clock = self.clock()
        gateway = self.with_token(clock=clock, own=True)
        mine = self.session(gateway)
        statuses = [self.login(gateway, f"guess-{number}").status for number in range(10)]
        self.assertEqual(statuses, [401] * 10)
        for token in ("guess", TOKEN):  # a guess that is right is told nothing else
            for answer in (self.login(gateway, token), gateway.admin("/metrics", fields=[self.bearer(token)])):
                self.assertEqual((answer.status, answer.get("Retry-After")), (429, "60"), token)
        self.assertEqual(gateway.admin("/v1/stats", fields=[mine]).status, 200, "a session is no guess")
        clock.advance(61)
        self.assertEqual(self.login(gateway).status, 204)
        self.assertEqual(gateway.admin("/metrics", fields=[self.bearer()]).status, 200)

    def test_whoever_is_refused_leaves_a_line(self):
        clock = self.clock()
        gateway = self.with_token(clock=clock, own=True)

        def told():
            return [(line["peer"], line["reason"], line["path"]) for line in gateway.log_lines()
                    if line["message"] == "admin refused"]

        def refused_by(ask, reason, path):
            """One line a second is written: asked until this is the one."""
            clock.advance_until(lambda: ask() and ("127.0.0.1", reason, path) in told(), seconds=1, what=reason)

        self.assertEqual(gateway.admin("/v1/stats").status, 401)
        self.assertEqual(told(), [], "a page that asks for a token first is nothing to tell")
        refused_by(lambda: self.login(gateway, "wrong"), "wrong token", "/v1/login")
        release = "/v1/keys/a-raw-key-by-mistake/release"
        shown = "/v1/keys/"  # what stands behind it is not
        refused_by(lambda: gateway.admin(release, "POST", [CHANGE], b"{}"), "no token", shown)
        refused_by(lambda: gateway.admin(release, "POST", [self.bearer()], b"{}"), "no Once-Admin", shown)
        refused_by(lambda: gateway.admin(release, "POST", [CHANGE, self.bearer()], b"{"), "bad request", shown)

    def test_events_end_with_the_session(self):
        gateway = self.with_token()
        mine = self.session(gateway)
        ends, status, _ = self.listen(gateway, mine)
        self.assertEqual(status, 200)
        goes_on, status, _ = self.listen(gateway, self.bearer())
        self.assertEqual(status, 200)
        self.read_event(ends)
        self.assertEqual(gateway.admin("/v1/logout", "POST", [mine, CHANGE], b"").status, 204)
        ends.read_to_end()
        for _ in range(3):
            self.read_event(goes_on)

    def test_neither_token_nor_session_is_logged_or_told(self):
        gateway = self.with_token("log.level=debug", "log.access=yes", own=True)
        mine = self.session(gateway)
        told = self.login(gateway, "wrong-and-secret").body + gateway.admin("/v1/stats", fields=[mine]).body
        told += gateway.admin("/metrics", fields=[self.bearer()]).body + (gateway.stderr + gateway.stdout).encode()
        for secret in (TOKEN, "wrong-and-secret", mine[1].split("=")[1]):
            self.assertNotIn(secret.encode(), told)

    def test_browsers_are_told_what_the_page_may_do(self):
        gateway = self.with_token()
        for path in (*PAGE, *DATA):
            answer = gateway.admin(path)
            policy = answer.get("Content-Security-Policy")
            self.assertTrue(policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"), path)
            self.assertIn("frame-ancestors 'none'", policy)
            self.assertNotIn("unsafe", policy)
            self.assertEqual(answer.get("X-Content-Type-Options"), "nosniff")
            self.assertEqual(answer.get("Cache-Control"), "no-cache" if path in PAGE else "no-store", path)
        page = gateway.admin("/").body.decode()
        self.assertEqual(re.findall(r"<script(?![^>]* src=)|\bon\w+=|style=|https?://", page), [])

    def test_a_wrong_token_is_refused_however_it_is_sent(self):
        gateway = self.with_token(own=True)  # each is counted
        for value in ("Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN} x"):
            self.assertEqual(gateway.admin("/metrics", fields=[("Authorization", value)]).status, 401, value)
        self.assertEqual(gateway.admin("/metrics", fields=[self.bearer(), self.bearer("another")]).status, 401)


class Elsewhere(AdminAccess):
    def test_another_address_needs_a_token(self):
        folder = self.folder()
        (folder / "once.yaml").write_text('upstreams: {default: "http://127.0.0.1:9"}\nlisten: 127.0.0.1:0\nadmin: 0.0.0.0:0\n')
        for command in ("check", "serve"):
            done = run_once(command, "--config", "once.yaml", folder=folder)
            self.assertIn("once.yaml:3:8: admin is 0.0.0.0:0:", done.stderr)
            self.assertIn("admin_token is required", done.stderr)
            self.assertNotEqual(done.returncode, 0)
        done = run_once("check", "--config", "once.yaml", "--set", f"admin_token={TOKEN}", folder=folder)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_socket_that_came_with_the_process_needs_one_too(self):
        with socket.create_server(("0.0.0.0", 0), backlog=20) as inherited, contextlib.ExitStack() as waiting:
            fd = inherited.fileno()
            early = [waiting.enter_context(socket.create_connection(("127.0.0.1", inherited.getsockname()[1]))) for _ in range(10)]
            for client in early:
                client.settimeout(60)
                client.sendall(b"GET /v1/keys HTTP/1.1\r\nHost: localhost\r\n\r\n")
            command = f'exec 3<&{fd}; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=admin exec "$ONCE_BINARY" serve --listen 127.0.0.1:0 ' \
                      f"--upstream http://127.0.0.1:9 --store memory:"
            done = run_shell(command, self.folder(), fd)
            inherited.close()
            for client in early:
                with contextlib.suppress(ConnectionResetError):
                    self.assertEqual(client.recv(1000), b"", "whoever waited in it must not be served")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("so admin_token is required", done.stderr)


class Events(AdminAccess):
    def test_history_first_then_numbers_every_second(self):
        gateway = self.gateway(self.upstream, own=True)
        client, status, fields = self.listen(gateway)
        self.assertEqual((status, fields["content-type"]), (200, "text/event-stream"))
        first = self.read_event(client)
        self.assertEqual(first["event"], "history")
        self.assertIn("points", json.loads(first["data"]))
        before = json.loads(self.read_event(client)["data"])
        self.assertEqual(gateway.ask(key="k").status, 201)
        self.assertEqual(gateway.ask(key="k").status, 201)
        after = json.loads(self.read_event(client)["data"])
        while after["results"]["replayed"] == before["results"]["replayed"]:
            after = json.loads(self.read_event(client)["data"])
        self.assertEqual((after["results"]["executed"], after["results"]["replayed"]), (1, 1))
        self.assertEqual(after["rates"]["hit_rate"], 0.5)
        self.assertEqual(after["store"]["kind"], "journal")


def run_shell(command, folder, fd):
    return subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, pass_fds=(fd,), timeout=60,
                          stdin=subprocess.DEVNULL, env=dict(os.environ))


if __name__ == "__main__":
    unittest.main()
