"""Django and REST Framework with once.django: under gunicorn and uvicorn, on a journal and on PostgreSQL."""
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import catalog
from stories import Stories
from support import SERVER, AppTest, sys
from wire import Client, wait_until

MANAGE = "from django.core.management import execute_from_command_line; import sys; execute_from_command_line(['manage.py', *sys.argv[1:]])"


MIGRATED = pathlib.Path(tempfile.mkdtemp(prefix="once-python-django-"))  # a database for every test to copy


def setUpModule():
    unittest.addModuleCleanup(shutil.rmtree, MIGRATED)
    project = Project()
    Project.setUp(project)
    try:
        project.manage("migrate", "--verbosity", "0")
        if not SERVER:
            shutil.copy(project.data / "shop.sqlite3", MIGRATED)
    finally:
        project.doCleanups()


class Project(AppTest):
    def setUp(self):
        super().setUp()
        self.ttl_hours = "24"
        if not SERVER and any(MIGRATED.iterdir()):
            shutil.copy(MIGRATED / "shop.sqlite3", self.data)

    def environment(self, settings):
        return {**super().environment(settings), "DJANGO_SETTINGS_MODULE": "shop.settings", "APP_TTL_HOURS": self.ttl_hours,
                **({"APP_DATABASE": SERVER} if SERVER else {})}

    def manage(self, *arguments, code=0):
        done = subprocess.run([sys.executable, "-c", MANAGE, *arguments], cwd=self.data, env=self.environment(self.settings()),
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def shell(self, program):
        return self.manage("shell", "-c", program).strip()

    def serve(self, **over):
        return self.start(sys.executable, "-m", "gunicorn", "shop.wsgi", "--bind", "127.0.0.1:PORT", "--threads", "8",
                          "--log-level", "warning", **over)

    def lost(self, app, path, when, body, key):
        """gunicorn starts another worker."""
        with Client(app.port) as client:
            client.send_request("POST", path, [("X-Die", when), ("Idempotency-Key", key), ("Content-Type", "application/json")],
                                json.dumps(body).encode())
            with self.assertRaises((EOFError, ConnectionResetError)):
                client.read_response()

    def settled(self, app, path, body, key):
        def answer():
            try:
                got = app.ask("POST", path, body=body, key=key)
            except (EOFError, OSError):  # the new worker is not there yet
                return None
            return got if got.get("Idempotency-Status") != "in-flight" else None

        return wait_until(answer, what="an answer")


class Wsgi(Stories, Project):
    def test_cookies_go_to_the_first_client_only(self):
        app = self.app()
        first, again = (app.ask("POST", "/orders", body={}, key="k") for _ in range(2))
        self.assertIn("seen=1", first.get("Set-Cookie"))
        self.assertIsNone(again.get("Set-Cookie"))


class Asgi(Stories, Project):
    def environment(self, settings):
        return {**super().environment(settings), "APP_ASYNC": "1"}

    def serve(self, **over):
        return self.start(sys.executable, "-m", "uvicorn", "shop.asgi:application", "--port", "PORT", "--log-level", "warning",
                          "--lifespan", "off", **over)

    # Django 3.2 collects a sync iterator before it sends any of it under ASGI.
    test_an_event_stream_reaches_its_client_as_it_comes = None


class RestFramework(Project):
    def test_a_viewset_is_protected_without_a_decorator(self):
        app = self.serve(**{"defaults.key.methods": "[POST, PUT, PATCH]"})
        first, again = (app.ask("POST", "/rest/", body={"title": "a"}, key="k") for _ in range(2))
        self.assertEqual((first.status, again.status, again.body), (201, 201, first.body))
        self.assertEqual((again.get("Idempotency-Status"), again.get("Content-Type")), ("replayed", "application/json"))
        made = json.loads(first.body)["id"]
        for method in ("PUT", "PATCH"):
            answers = [app.ask(method, f"/rest/{made}/", body={"title": method}, key=method) for _ in range(2)]
            self.assertEqual([answer.get("Idempotency-Status") for answer in answers], ["executed", "replayed"])
        self.assertEqual(self.executions(), 3)

    def test_an_action_with_the_decorator(self):
        app = self.app()
        first = app.ask("POST", "/rest/start/", body={"title": "a"}, key="k")
        if not SERVER:  # sqlite has no once_finish
            self.assertEqual(first.status, 500)
            self.assertIn("has no once_finish()", app.said)
            return
        again = app.ask("POST", "/rest/start/", body={"title": "a"}, key="k")
        self.assertEqual((first.status, first.get("X-Made"), again.body), (201, "yes", first.body))
        self.assertEqual(again.get("Idempotency-Status"), "replayed")
        self.assertEqual((json.loads(first.body)["title"], self.executions()), ("a", 1))
        self.assertEqual(again.get("Original-Request-Id"), first.get("X-Request-Id"))

    @unittest.skipUnless(SERVER, "needs once_finish()")
    def test_a_function_with_both_decorators(self):
        app = self.app()
        first, again = (app.ask("POST", "/by-function", body={}, key="k") for _ in range(2))
        self.assertEqual((first.status, again.status, again.body), (201, 201, first.body))
        self.assertEqual((first.get("Content-Type"), self.executions()), ("application/json", 1))

    def test_a_validation_error_is_an_answer(self):
        app = self.app()
        answers = [app.ask("POST", "/rest/start/", body={"title": "invalid"}, key="k") for _ in range(2)]
        self.assertEqual([answer.status for answer in answers], [400, 400])
        self.assertEqual(answers[1].get("Idempotency-Status"), "replayed")

    @unittest.skipUnless(SERVER, "needs once_finish()")
    def test_a_refusal_is_rolled_back_and_may_come_back(self):
        app = self.app()
        for status in ("429", "503"):
            fields = [("X-Refuse", status)]
            self.assertEqual(app.ask("POST", "/rest/start/", fields, {"title": status}, key=status).status, int(status))
            self.assertEqual(self.shell(f"from shop.models import Order; print(Order.objects.filter(title='{status}').count())"), "0")
            self.assertEqual(app.ask("POST", "/rest/start/", body={"title": status}, key=status).status, 201)

    @unittest.skipUnless(SERVER, "needs once_finish()")
    def test_killed_before_the_commit_nothing_stays_and_killed_after_it_the_answer_does(self):
        app = self.serve(defaults__on_unknown="retry")
        self.lost(app, "/rest/start/", "before", {"title": "b"}, "kb")
        again = self.settled(app, "/rest/start/", {"title": "b"}, "kb")
        self.assertEqual((again.status, again.get("Idempotency-Status")), (201, "executed"))
        self.lost(app, "/by-hand", "after", {}, "ka")
        again = self.settled(app, "/by-hand", {}, "ka")
        self.assertEqual((again.status, again.get("Idempotency-Status")), (201, "replayed"))
        count = "from shop.models import Order; print(Order.objects.filter(title={!r}).count())"
        self.assertEqual([self.shell(count.format(title)) for title in ("b", "by hand")], ["1", "1"])


@unittest.skipIf(SERVER, "it has a server of its own")
class MariaDb(Project):
    """There once_finish() is a procedure, and `once schema` makes the tables."""

    def setUp(self):
        super().setUp()
        self.server = catalog.make("mariadb")
        self.addCleanup(self.server.stop)
        self.server.start()
        self.manage("migrate", "--verbosity", "0")

    def environment(self, settings):
        return {**super().environment(settings), "APP_DATABASE": self.server.url()}

    def test_work_and_response_are_committed_together_and_the_model_reads_the_keys(self):
        app = self.serve(defaults__on_unknown="retry")
        self.lost(app, "/by-hand", "after", {}, "k")
        again = self.settled(app, "/by-hand", {}, "k")
        self.assertEqual((again.status, again.get("Idempotency-Status")), (201, "replayed"))
        first, again = (app.ask("POST", "/rest/start/", body={"title": "a"}, key="s") for _ in range(2))
        self.assertEqual((first.status, again.body, again.get("Idempotency-Status")), (201, first.body, "replayed"))
        said = self.shell("from once.django.models import IdempotencyKey as K\nfrom shop.models import Order\n"
                          "print(Order.objects.count(), *{(key.state, key.expired) for key in K.objects.all()})")
        self.assertEqual(said, "2 ('succeeded', False)")


class Mistakes(Project):
    def test_the_decorator_fails_loudly_where_it_cannot_work(self):
        for program, text in (
                ("@idempotent\nclass View: pass", "is a class: decorate its methods"),
                ("@idempotent\nasync def view(request): pass", "no transactions in async views"),
                ("@idempotent\ndef helper(number): pass\nhelper(7)", "without a request"),
                ("from django.test import RequestFactory\n@idempotent\ndef view(request): pass\n"
                 "view(RequestFactory().post('/'))", "did not pass through Once"),
                ("from django.test import RequestFactory\n@idempotent\ndef view(request): return 7\n"
                 "request = RequestFactory().post('/')\nrequest.once = None\nview(request)", "not a response")):
            with self.subTest(text):
                said = self.manage("shell", "-c", f"from once.django import idempotent\n{program}", code=1)
                self.assertIn(text, said)

    def test_finish_outside_of_a_transaction_is_refused(self):
        app = self.serve()
        self.assertEqual(app.ask("POST", "/outside", key="k").status, 500)
        self.assertIn("belongs into transaction.atomic()", app.said)

    def test_a_project_without_the_middleware_is_told(self):
        said = self.shell("from django.test.utils import override_settings\nfrom django.core import checks\n"
                          "with override_settings(MIDDLEWARE=[]): print(checks.run_checks()[0].hint)")
        self.assertIn("once.django.Middleware", said)

    def test_unknown_settings_are_refused(self):
        said = self.manage("shell", "-c", "from django.conf import settings; settings.ONCE['confg'] = 1\n"
                           "from once.django import opening; opening.gate()", code=1)
        self.assertIn("ONCE has no member confg", said)


@unittest.skipUnless(SERVER, "the model and the command are for SQL stores")
class Keys(Project):
    def test_expired_keys_are_removed_and_the_lifetime_is_djangos(self):
        self.ttl_hours = "0.001"  # a few seconds; a key is kept longer while its request may be at work
        app = self.serve(defaults__timeouts__connect="1s", defaults__timeouts__response="1s",
                         defaults__timeouts__stream_idle="1s")
        model = "from once.django.models import IdempotencyKey as K; "
        of_others = self.shell(model + "print([key.pk for key in K.objects.all()])")
        self.assertEqual(app.ask("POST", "/orders", body={}, key="short").get("Idempotency-Status"), "executed")
        self.assertIsNotNone(app.ask("POST", "/orders", body={}, key="short").get("Idempotency-Expires"))

        def is_removed():  # by the command, or by a sweep of its own of any process that has the store open
            self.assertRegex(self.manage("cleanup_idempotency_keys"), r"^\d+ expired keys removed\n$")
            return self.shell(model + f"print(K.objects.exclude(pk__in={of_others}).exists())") == "False"

        wait_until(is_removed, what="the key to expire")


if __name__ == "__main__":
    unittest.main()
