"""The alert rules and the dashboard as data, and promtool to hold them against."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ROOT / "packaging" / "prometheus" / "once.rules.yml"
SCRAPE = ROOT / "packaging" / "prometheus" / "scrape.yml"
SCRAPE_PODS = SCRAPE.with_name("scrape-kubernetes.yml")
DASHBOARD = ROOT / "packaging" / "grafana" / "once.json"
RUNBOOK = ROOT / "docs" / "operate" / "runbook.md"
METRICS_PAGE = ROOT / "docs" / "reference" / "metrics.md"
for folder in ("claims", "servers", "e2e"):
    sys.path.insert(0, str(ROOT / "tests" / folder))

ALERT = re.compile(r"^      - alert: (?P<name>\w+)\n(?P<rest>(?:        .*\n|          .*\n)+)", re.MULTILINE)
ONE_LINE = re.compile(r"^        expr: (.*)$", re.MULTILINE)
SEVERAL_LINES = re.compile(r"^        expr: \|\n((?:          .*\n)+)", re.MULTILINE)
METRIC = re.compile(r"\b(?:once|process)_\w+")
# What a histogram is read by.
OF_HISTOGRAM = re.compile(r"_(?:bucket|sum|count)$")


class Alert:
    def __init__(self, name, rest):
        self.name = name
        several = SEVERAL_LINES.search(rest)
        self.expr = several[1] if several else ONE_LINE.search(rest)[1].strip("'").replace("''", "'")
        self.labels = dict(re.findall(r"^          (severity|limit): (\w+)$", rest, re.MULTILINE))
        self.annotations = dict(re.findall(r"^          (summary|description|runbook_url): (.*)$", rest, re.MULTILINE))

    @property
    def case(self):
        """OnceNearLimit is there for each limit."""
        return f"{self.name}:{self.labels['limit']}" if "limit" in self.labels else self.name


def alerts():
    found = [Alert(match["name"], match["rest"]) for match in ALERT.finditer(RULES.read_text())]
    if len(found) != RULES.read_text().count("- alert:"):
        raise AssertionError("a rule is not written as the others are")
    return found


def dashboard():
    return json.loads(DASHBOARD.read_text())


def panels(board):
    for panel in board["panels"]:
        yield panel
        yield from panel.get("panels", [])


def exprs(board):
    """With what Grafana puts in for its variables."""
    for panel in panels(board):
        for target in panel.get("targets", []):
            text = target["expr"].replace("$__rate_interval", "5m")
            yield panel["title"], re.sub(r"\$\w+", ".+", text)


def metrics_of(expr):
    without_strings = re.sub(r'"[^"]*"', '""', expr)
    return {OF_HISTOGRAM.sub("", name) for name in METRIC.findall(without_strings)}


def promtool(*arguments, files):
    """Runs it in a folder with these files: name → what is written as JSON, which is YAML."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (pathlib.Path(folder) / name).write_text(content if isinstance(content, str) else json.dumps(content))
        done = subprocess.run(["promtool", *arguments], cwd=folder, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr
