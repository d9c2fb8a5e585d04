"""The dashboard and the alert rules ask for nothing that is not there: every expression is one, and every metric in it is served."""
import collections
import os
import re
import subprocess
import unittest

import packaged

import catalog
from harness import EndToEnd

# What only some stores have, they have together.
STORES = ("memory:", "journal:", "postgres")
SAMPLE = re.compile(r"^(\w+)\{(.*)\} \S+$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
SELECTOR = re.compile(r"\b(once_\w+)\{([^}]*)\}")
MATCHER = re.compile(r'(\w+)(=~|=)"([^"]*)"')


def fits(labels, name, how, value):
    return name in labels and (labels[name] == value if how == "=" else re.fullmatch(value, labels[name]) is not None)


class Dashboard(unittest.TestCase):
    def test_panels_have_ids_of_their_own_and_ask_the_source_that_was_chosen(self):
        board = packaged.dashboard()
        ids = collections.Counter(panel["id"] for panel in packaged.panels(board))
        self.assertEqual([number for number, count in ids.items() if count > 1], [])
        self.assertIn({"name": "datasource", "type": "datasource", "query": "prometheus"},
                      [{name: each.get(name) for name in ("name", "type", "query")} for each in board["templating"]["list"]])
        for panel in packaged.panels(board):
            with self.subTest(panel=panel["title"]):
                if panel["type"] == "row":
                    continue
                self.assertTrue(panel["targets"])
                for part in (panel, *panel["targets"]):
                    self.assertEqual(part["datasource"], {"type": "prometheus", "uid": "${datasource}"})
                letters = [target["refId"] for target in panel["targets"]]
                self.assertEqual(len(letters), len(set(letters)))

    def test_no_panel_lies_on_another(self):
        taken = collections.Counter()
        for panel in packaged.panels(packaged.dashboard()):
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24)
            taken.update((x, y) for x in range(place["x"], place["x"] + place["w"])
                         for y in range(place["y"], place["y"] + place["h"]))
        self.assertEqual([cell for cell, count in taken.items() if count > 1], [])

    def test_every_variable_in_an_expression_is_one_of_the_dashboard(self):
        board = packaged.dashboard()
        known = {each["name"] for each in board["templating"]["list"]} | {"__rate_interval"}
        for panel in packaged.panels(board):
            for target in panel.get("targets", []):
                self.assertLessEqual(set(re.findall(r"\$(\w+)", target["expr"])), known)

    def test_prometheus_understands_every_expression(self):
        exprs = [expr for _, expr in packaged.exprs(packaged.dashboard())]
        self.assertGreater(len(exprs), 40)
        # promtool checks no expressions, but rules made of them.
        rules = {"groups": [{"name": "dashboard", "rules": [{"record": f"dashboard:expr_{number}", "expr": expr}
                                                            for number, expr in enumerate(exprs)]}]}
        code, output = packaged.promtool("check", "rules", "rules.yml", files={"rules.yml": rules})
        self.assertEqual(code, 0, output)


class Served(EndToEnd):
    def gateway_on(self, store):
        if store == "postgres":
            server = catalog.make(store)
            self.addCleanup(server.stop)
            server.start()
            store = server.url()
        return self.gateway(self.backend(), f"store={store}",
                            env={**os.environ, "ONCE_SECRET": "0123456789abcdef0123456789abcdef"})

    def served(self):
        """Series as (name, labels), of gateways on each kind of store; promtool has nothing to say of their pages."""
        series = []
        for store in STORES:
            page = self.gateway_on(store).admin("/metrics").body.decode()
            done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""), store)
            series += [(name, {}) for name in re.findall(r"^# TYPE (\w+) ", page, re.MULTILINE)]
            series += [(name, dict(LABEL.findall(labels))) for name, labels in SAMPLE.findall(page)]
        return series

    def check(self, expr, served):
        names = {name for name, _ in served}
        self.assertEqual(packaged.metrics_of(expr) - names, set())
        for name, labels in SELECTOR.findall(expr):
            asked = [each for each in MATCHER.findall(labels) if each[0] not in ("job", "instance")]
            if name not in {found for found, has in served if has}:
                continue
            fitting = [has for found, has in served if found == name and all(fits(has, *each) for each in asked)]
            self.assertTrue(fitting, f"nothing is served that fits {name}{{{labels}}}")

    def test_every_metric_and_label_of_the_dashboard_and_the_rules_is_served(self):
        served = self.served()
        for title, expr in packaged.exprs(packaged.dashboard()):
            with self.subTest(panel=title):
                self.check(expr, served)
        for alert in packaged.alerts():
            with self.subTest(alert=alert.case):
                self.check(alert.expr, served)

    def test_every_metric_that_is_served_is_on_the_dashboard(self):
        shown = set().union(*(packaged.metrics_of(expr) for _, expr in packaged.exprs(packaged.dashboard())))
        documented = set(re.findall(r"^\| `((?:once|process)_\w+)` \|", packaged.METRICS_PAGE.read_text(), re.MULTILINE))
        self.assertEqual(documented - shown, LEFT_OUT)


# Of little use on a screen.
LEFT_OUT = {"once_journal_segments", "once_journal_segments_dropped_total", "once_journal_live_claims",
            "once_store_connects_total", "once_store_told_total"}

if __name__ == "__main__":
    unittest.main()
