"""What operators watch: counts by route, how long requests are at work, limits, and whose trace a request belongs to."""
import os
import re
import unittest

from harness import EndToEnd, run_once
from wire import wait_until

KEY = "8e03978e-40d5-43e8-bc93-6894a57f9324"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
ROUTES = """
routes:
  - path: /payments
  - path: "/orders/{id}/items"
    on_unknown: retry
"""
ROUTES_AFTER = """
limits: {max_in_flight: 77}
routes:
  - path: /refunds
  - path: /payments
"""


def by_status(request, connection):
    """/fail is answered with 500, /die with nothing."""
    if request.body == b"die":
        connection.reset()
    else:
        connection.reply(500 if request.body == b"fail" else 201, body=b"done")


def routes_in(metrics):
    return {match[1] for match in (re.search(r'route="([^"]*)"', name) for name in metrics) if match}


class Routes(EndToEnd):
    def test_results_and_outcomes_are_counted_by_pattern_and_never_by_path(self):
        gateway = self.gateway(self.backend(by_status), config=ROUTES)
        gateway.ask("POST", "/payments", key=KEY)
        gateway.ask("POST", "/payments", key=KEY)
        for order in range(20):
            gateway.ask("POST", f"/orders/{order}/items", key=f"order-{order}", body=b"fail")
        gateway.ask("POST", "/orders/20/items", key="lost", body=b"die")
        gateway.ask("POST", "/orders/20/items", key="lost", body=b"die")
        gateway.ask("GET", "/nothing/of/the/kind")
        with gateway.connect() as client:
            client.send(b"no request\r\n\r\n")
            client.read_response()

        # The client may have its answer a moment before it is counted.
        wait_until(lambda: gateway.metrics()['once_requests_total{route="none",result="rejected"}'] == 1)
        metrics = gateway.metrics()
        orders = "/orders/{id}/items"
        self.assertEqual(routes_in(metrics), {"/payments", orders, "none"})
        expected = {('requests', '/payments', 'result="executed"'): 1, ('requests', '/payments', 'result="replayed"'): 1,
                    ('requests', orders, 'result="executed"'): 20, ('requests', orders, 'result="unknown"'): 2,
                    ('requests', 'none', 'result="passed"'): 1, ('requests', 'none', 'result="rejected"'): 1,
                    ('outcomes', '/payments', 'outcome="succeeded"'): 1,
                    ('outcomes', orders, 'outcome="failed"'): 20, ('outcomes', orders, 'outcome="unknown"'): 2}
        counted = {name: value for name, value in metrics.items()
                   if re.match(r'once_(requests|outcomes)_total\{route=', name) and value != 0}
        self.assertEqual(counted, {f'once_{family}_total{{route="{route}",{label}}}': count
                                   for (family, route, label), count in expected.items()})
        self.assertEqual(metrics[f'once_takeovers_total{{route="{orders}"}}'], 1)
        self.assertEqual(metrics['once_takeovers_total{route="/payments"}'], 0)

    def test_a_reload_takes_no_count_back(self):
        gateway = self.gateway(self.backend(by_status), config=ROUTES)
        gateway.ask("POST", "/payments", key=KEY)
        gateway.ask("POST", "/orders/1/items", key=KEY)
        self.assertEqual(gateway.metrics()["once_in_flight_limit"], 20000)
        with gateway.connect() as held:  # a connection of the old generation
            held.ask("POST", "/payments", key="other")
            (gateway.folder / "once.yaml").write_text(ROUTES_AFTER)
            reloaded = run_once("reload", "--admin", f"127.0.0.1:{gateway.admin_port}")
            self.assertEqual(reloaded.returncode, 0, reloaded.stderr)
            held.ask("POST", "/payments", key="third")
            held.ask("POST", "/refunds", key=KEY)
            # Now it is no route's.
            held.ask("POST", "/orders/1/items", key=KEY)
            wait_until(lambda: gateway.metrics()['once_requests_total{route="none",result="passed"}'] == 1)
        metrics = gateway.metrics()
        executed = {route: metrics[f'once_requests_total{{route="{route}",result="executed"}}']
                    for route in routes_in(metrics)}
        self.assertEqual(executed, {"/payments": 3, "/orders/{id}/items": 1, "/refunds": 1, "none": 0})
        self.assertEqual(metrics["once_in_flight_limit"], 77)

    def test_the_oldest_request_at_work_grows_old_until_it_ends(self):
        go = self.gate()

        def handler(_, connection):
            go.wait()
            connection.reply(201)

        gateway = self.gateway(self.backend(handler))
        self.assertEqual(gateway.metrics()["once_in_flight_oldest_seconds"], 0)
        with gateway.connect() as client:
            client.send_request("POST", "/", key=KEY)
            age = wait_until(lambda: gateway.metrics()["once_in_flight_oldest_seconds"])
            wait_until(lambda: gateway.metrics()["once_in_flight_oldest_seconds"] > age)
            go.set()
            client.read_response()
            wait_until(lambda: gateway.metrics()["once_in_flight_oldest_seconds"] == 0)


class Traces(EndToEnd):
    def ask_with(self, gateway, fields, key=None):
        request_id = f"request-{self.asked}"
        self.asked += 1
        gateway.ask("POST", "/", fields=[("X-Request-Id", request_id), *fields], key=key)

        def line():
            lines = gateway.log_lines(gateway.stdout)
            return next((line for line in lines if line.get("request") == request_id), None)

        return wait_until(line, what="the line in the access log")

    def setUp(self):
        super().setUp()
        self.asked = 0

    def test_a_trace_goes_to_the_backend_and_into_the_log(self):
        backend = self.backend()
        gateway = self.gateway(backend, "log.access=yes", "log.format=json")
        fields = [("traceparent", PARENT), ("tracestate", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE")]
        for key in (KEY, None):
            line = self.ask_with(gateway, fields, key=key)
            self.assertEqual((line["trace"], line["result"]), (TRACE, "executed" if key else "passed"))
            sent = backend.requests[-1]
            self.assertEqual([sent.all("traceparent"), sent.all("tracestate")], [[value] for _, value in fields])

    def test_errors_that_name_a_request_have_its_trace_and_operation(self):
        gateway = self.gateway(self.backend(), "log.format=json", "log.access=yes", "store=redis://127.0.0.1:1",
                               env={**os.environ, "ONCE_SECRET": "0123456789abcdef0123456789abcdef"})
        self.assertEqual(gateway.ask("POST", "/", fields=[("traceparent", PARENT)], key=KEY).status, 503)
        line = wait_until(lambda: next((line for line in gateway.log_lines() if line["message"] == "claim failed"), None))
        access = wait_until(lambda: gateway.log_lines(gateway.stdout))[0]
        self.assertEqual((line["trace"], line["operation"]), (TRACE, access["operation"]))
        self.assertRegex(line["operation"], "^[0-9a-f]{16}$")


if __name__ == "__main__":
    unittest.main()
