"""A real Prometheus that reads real gateways, with the alert rules as they are packaged, but for how long they wait."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request

import packaged

import server
from wire import DEADLINE, wait_until

# What happened once must still be in sight when the slowest of machines comes to look.
WINDOW = "[2m]"
WAIT = "for: 1s"


def hurried(rules):
    """The rules with other durations, and nothing else changed."""
    return re.sub(r"\bfor: \w+$", WAIT, re.sub(r"\[\d+[smhd]\]", WINDOW, rules), flags=re.MULTILINE)


class Prometheus:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="once-prometheus-"))
        self.port = server.free_port()
        self.targets = []
        self.tell_targets()
        (self.folder / "once.rules.yml").write_text(hurried(packaged.RULES.read_text()))
        (self.folder / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": ["once.rules.yml"],
            "scrape_configs": [{"job_name": "once", "file_sd_configs": [{"files": ["targets.json"]}]}]}))
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
                 f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self.ready, what="Prometheus to start")

    def stop(self):
        self.process.terminate()
        self.process.wait(DEADLINE)
        shutil.rmtree(self.folder)

    def ready(self):
        if self.process.poll() is not None:
            raise AssertionError((self.folder / "log").read_text())
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=DEADLINE) as answer:
                return answer.status == 200
        except (urllib.error.URLError, ConnectionError):
            return False

    def ask(self, path, **query):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=DEADLINE) as answer:
            return json.load(answer)["data"]

    def tell_targets(self):
        new = self.folder / "targets.new"
        new.write_text(json.dumps([{"targets": self.targets}]))
        os.replace(new, self.folder / "targets.json")

    def watch(self, gateways):
        """Returns when each has been read twice: a counter that grows from now on is seen to grow."""
        self.targets = [instance_of(gateway) for gateway in gateways]
        self.tell_targets()
        for target in self.targets:
            wait_until(lambda target=target: self.samples(target) >= 2, what=f"Prometheus to read {target}")

    def samples(self, target):
        found = self.ask("query", query=f'count_over_time(once_connections_limit{{instance="{target}"}}[1m])')["result"]
        return int(found[0]["value"][1]) if found else 0

    def firing(self):
        return [alert["labels"] for alert in self.ask("alerts")["alerts"] if alert["state"] == "firing"]


def instance_of(gateway):
    return f"127.0.0.1:{gateway.admin_port}"
