"""The Kubernetes examples, the Containerfile and the units say the same as the binary and its settings."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

import urllib.error
import urllib.request

import yaml

import image
import support

sys.path.append(str(support.ROOT / "tests" / "docs"))

import manifests  # noqa: E402

MANIFESTS = sorted((support.ROOT / "packaging/kubernetes").glob("*.yaml"))
SECRET = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
SECRETS = {"once": {"secret": SECRET, "admin-token": SECRET, "store-password": SECRET}}  # as kubectl makes them
SCRAPING = support.ROOT / "packaging/prometheus"
UNITS = support.ROOT / "packaging/systemd"
# What the kinds that are used may hold at their top, and what they must hold.
KINDS = {
    ("v1", "ConfigMap"): {"data"},
    ("v1", "Service"): {"spec"},
    ("apps/v1", "Deployment"): {"spec"},
    ("apps/v1", "StatefulSet"): {"spec"},
    ("policy/v1", "PodDisruptionBudget"): {"spec"},
}
CONTAINER = {"name", "image", "args", "env", "ports", "startupProbe", "readinessProbe", "livenessProbe", "lifecycle", "resources",
             "securityContext", "volumeMounts"}
PROBE = {"httpGet", "periodSeconds", "timeoutSeconds", "failureThreshold"}
INSTRUCTIONS = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"}


def check(text, *options):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "once.yaml"
        token = pathlib.Path(folder) / "admin-token"
        token.write_text("0123456789abcdef")
        token.chmod(0o600)
        file.write_text(text.replace("/etc/once/admin-token", str(token)))
        return subprocess.run([support.ONCE, "check", "--config", str(file), *options], capture_output=True, text=True,
                              env={**os.environ, "ONCE_SECRET": "0123456789abcdef"})  # its file is not here


def seconds(duration):
    number, unit = re.fullmatch(r"(\d+)(s|m)", duration).groups()
    return int(number) * {"s": 1, "m": 60}[unit]


def usage_is_known(arguments):
    """Whether the binary knows these options; --help ends it before anything is done."""
    return subprocess.run([support.ONCE, *arguments, "--help"], capture_output=True).returncode == 0


class Kubernetes(unittest.TestCase):
    def each(self):
        self.assertEqual([path.name for path in MANIFESTS], ["deployment.yaml", "sidecar.yaml", "statefulset.yaml"])
        for path in MANIFESTS:
            documents = list(yaml.safe_load_all(path.read_text()))
            with self.subTest(file=path.name):
                yield path, {document["kind"]: document for document in documents}, documents

    @staticmethod
    def workload(kinds):
        return kinds.get("Deployment") or kinds["StatefulSet"]

    def once(self, kinds):
        containers = self.workload(kinds)["spec"]["template"]["spec"]["containers"]
        return next(container for container in containers if container["name"] == "once")

    def test_kinds_and_names(self):
        for path, kinds, documents in self.each():
            for document in documents:
                required = KINDS[(document["apiVersion"], document["kind"])]
                self.assertEqual(set(document) - {"apiVersion", "kind", "metadata"}, required)
                self.assertRegex(document["metadata"]["name"], r"^[a-z0-9-]{1,63}$")
            spec = self.workload(kinds)["spec"]
            labels = spec["template"]["metadata"]["labels"]
            selector = kinds["Service"]["spec"]["selector"]
            self.assertEqual(selector.items() & labels.items(), selector.items())
            container = self.once(kinds)
            self.assertEqual(set(container) - CONTAINER, set())
            if "PodDisruptionBudget" in kinds:
                self.assertLess(kinds["PodDisruptionBudget"]["spec"]["minAvailable"], spec["replicas"])

    def test_what_kubernetes_starts_serves(self):
        for path, kinds, _ in self.each():
            container, = manifests.check(path.read_text(), SECRETS)
            with container.serving() as line:
                admin = f"http://{line['admin']}"
                # The kubelet asks by the pod's address, and has no token; Prometheus has one.
                self.assertEqual(self.status(f"{admin}/healthz", Host="10.0.0.7:8081"), 200)
                self.assertEqual(self.status(f"{admin}/metrics", Host="10.0.0.7:8081"), 401)
                self.assertEqual(self.status(f"{admin}/metrics", Host="10.0.0.7:8081", Authorization=f"Bearer {SECRET}"), 200)

    @staticmethod
    def status(url, **headers):
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=image.DEADLINE) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            error.close()
            return error.code

    def test_names_of_ports_and_fields_of_probes(self):
        for path, kinds, _ in self.each():
            config = yaml.safe_load(kinds["ConfigMap"]["data"]["once.yaml"])
            container = self.once(kinds)
            listens = int(config["listen"].rsplit(":", 1)[1])
            self.assertEqual([(port["name"], port["containerPort"]) for port in container["ports"]], [("http", listens), ("admin", 8081)])
            self.assertEqual({port["targetPort"] for port in kinds["Service"]["spec"]["ports"]}, {"http"})
            self.assertEqual(config["admin"], "0.0.0.0:8081", "the kubelet and Prometheus ask from outside the pod")
            for name in ("startupProbe", "readinessProbe", "livenessProbe"):
                self.assertEqual(set(container[name]) - PROBE, set())

    def test_nothing_runs_as_root_and_no_secret_is_written_down(self):
        for path, kinds, documents in self.each():
            pod = self.workload(kinds)["spec"]["template"]["spec"]
            context = pod["securityContext"]
            self.assertEqual(context["runAsGroup"], image.user())
            security = self.once(kinds)["securityContext"]
            self.assertEqual(security["capabilities"], {"drop": ["ALL"]})
            self.assertTrue(security["readOnlyRootFilesystem"])
            self.assertFalse(security["allowPrivilegeEscalation"])
            self.assertNotIn("Secret", kinds)
            for variable in self.once(kinds)["env"]:
                self.assertIn("secretKeyRef", variable["valueFrom"])


    def test_prometheus_reads_what_they_serve(self):
        monitor = yaml.safe_load((SCRAPING / "podmonitor.yaml").read_text())
        jobs = yaml.safe_load((SCRAPING / "scrape-kubernetes.yml").read_text())["scrape_configs"]
        self.assertEqual([job["job_name"] for job in jobs], ["once"], "the name that the rules ask for")
        endpoint = monitor["spec"]["podMetricsEndpoints"][0]
        self.assertIn({"targetLabel": "job", "replacement": "once"}, endpoint["relabelings"])
        apps = set(monitor["spec"]["selector"]["matchExpressions"][0]["values"])
        for path, kinds, _ in self.each():
            pod = self.workload(kinds)["spec"]["template"]
            apps.discard(pod["metadata"]["labels"]["app"])
            self.assertIn(pod["metadata"]["labels"]["app"], monitor["spec"]["selector"]["matchExpressions"][0]["values"])
            self.assertIn(endpoint["port"], [port["name"] for port in self.once(kinds)["ports"]])
            kept = [rule["regex"] for rule in jobs[0]["relabel_configs"] if rule.get("action") == "keep"]
            self.assertEqual(kept, [f"{self.once(kinds)['name']};{endpoint['port']}"])
            secrets = [volume["secret"] for volume in pod["spec"]["volumes"] if "secret" in volume]
            self.assertEqual([(secret["secretName"], secret["items"][0]["key"]) for secret in secrets],
                             [tuple(endpoint["authorization"]["credentials"].values())])
            self.assertTrue(jobs[0]["authorization"]["credentials_file"].endswith(secrets[0]["items"][0]["path"]))
        self.assertEqual(apps, set(), "every pod that is looked for is there")


class Containerfile(unittest.TestCase):
    def setUp(self):
        self.steps = image.steps()

    def test_instructions(self):
        self.assertEqual({name for name, _ in self.steps} - INSTRUCTIONS, set())
        stages = [rest.split()[0] for name, rest in self.steps if name == "FROM"]
        self.assertEqual(stages, ["debian:12", "debian:12-slim"])
        for name, rest in self.steps:
            if name == "COPY" and not rest.startswith("--from"):
                self.assertTrue((support.ROOT / rest.split()[0]).exists(), rest)
            if name == "RUN":
                self.assertEqual(subprocess.run(["sh", "-n", "-c", rest], capture_output=True).stderr, b"")

    def test_it_ends_as_a_user_without_rights_and_without_a_secret(self):
        self.assertEqual(image.last("USER"), f"{image.user()}:{image.user()}")
        self.assertGreater(image.user(), 0)
        made = [rest for name, rest in self.steps if name == "RUN"][-2]
        self.assertIn(f"--gid {image.user()} once", made)
        self.assertIn(f"--uid {image.user()} --gid once", made)
        self.assertIn("/etc/once/secret /etc/once/admin-token", image.last("RUN"))
        self.assertNotIn("ENV", {name for name, _ in self.steps})

    def test_its_commands_are_those_of_the_binary(self):
        entry = yaml.safe_load(image.last("ENTRYPOINT"))
        command = yaml.safe_load(image.last("CMD"))
        self.assertTrue(usage_is_known([*entry[1:], *command]))
        self.assertTrue(usage_is_known(yaml.safe_load(image.last("HEALTHCHECK").split(" CMD ")[1])[1:]))
        options = ["--set", "environment=production", "--set", "data_dir=/var/lib/once"]
        self.assertEqual(entry, ["/usr/bin/once", "serve", *options])
        done = check((support.ROOT / "packaging/once.yaml").read_text(), *options, *command[:2])
        self.assertEqual(done.returncode, 0, done.stderr)


    def test_one_name_and_one_way_to_build_it(self):
        builds = []
        for path in (image.CONTAINERFILE, support.ROOT / "docs/start/install.md"):
            lines = re.findall(r"podman (?:build|run) .*", path.read_text())
            self.assertEqual(len(lines), 2, path)
            builds.append(lines[0])
            # An OCI image, podman's default, has no health check.
            self.assertIn("--format docker", lines[0])
            self.assertIn(f" {image.name()}", lines[1])
        self.assertEqual(builds[0], builds[1])
        version = subprocess.run([support.ONCE, "version"], capture_output=True, text=True, check=True).stdout.split()[1]
        self.assertEqual(image.name(), f"once:{version}")


class Units(unittest.TestCase):
    def value(self, unit, name):
        return re.findall(rf"^{name}=(.*)$", (UNITS / unit).read_text(), re.MULTILINE)

    def test_the_configuration_of_the_package_can_be_served(self):
        done = check((support.ROOT / "packaging/once.yaml").read_text())
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_commands_are_those_of_the_binary(self):
        for unit in ("once.service", "once-sweep.service"):
            for command in self.value(unit, "ExecStart"):
                words = shlex.split(command)
                self.assertEqual(words[0], "/usr/bin/once")
                self.assertTrue(usage_is_known(words[1:]), command)
        drain = 70
        self.assertGreater(seconds(self.value("once.service", "TimeoutStopSec")[0]), drain)
        config = yaml.safe_load((support.ROOT / "packaging/once.yaml").read_text())
        self.assertEqual(self.value("once.socket", "ListenStream"), [config["listen"]])
        self.assertEqual(config["data_dir"], "/var/lib/" + self.value("once.service", "StateDirectory")[0])

    def test_it_is_started_again_unless_its_settings_are_wrong(self):
        text = (UNITS / "once.service").read_text()
        self.assertIn("StartLimitIntervalSec=0", text.split("[Service]")[0])
        self.assertEqual(self.value("once.service", "Restart"), ["on-failure"])
        self.assertEqual(self.value("once.service", "ExecStartPre"), [], "RestartPreventExitStatus does not look at it")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "once.yaml"
            for mistake in ("listen: nowhere", "environment: production\nupstreams: {default: 'http://127.0.0.1:9'}"):
                file.write_text(mistake + "\n")
                done = subprocess.run([support.ONCE, "serve", "--config", str(file)], capture_output=True, timeout=60, env={})
                self.assertEqual([str(done.returncode)], self.value("once.service", "RestartPreventExitStatus"))

    def test_nothing_of_its_memory_reaches_a_disk(self):
        for unit in ("once.service", "once-sweep.service"):
            self.assertEqual(self.value(unit, "LimitCORE"), ["0"], unit)

    def test_the_audit_log_has_its_folder(self):
        folder = "/var/log/" + self.value("once.service", "LogsDirectory")[0]
        self.assertIn(f"audit_log: {folder}/", (support.ROOT / "packaging/once.yaml").read_text())
        self.assertIn(folder, (support.ROOT / "packaging/debian/postrm").read_text())

    def test_the_socket_of_the_claims_api_has_its_folder(self):
        folder = "/run/" + self.value("once.service", "RuntimeDirectory")[0]
        told = re.findall(r"unix:(/run/[\w/]+)/\w+\.sock", (support.ROOT / "docs/guides/claims.md").read_text())
        self.assertEqual(set(told), {folder})

    @unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze here")
    def test_systemd_takes_them(self):
        with tempfile.TemporaryDirectory() as folder:
            # It looks for the programs, which are not installed here.
            for unit in UNITS.iterdir():
                text = unit.read_text().replace("/usr/bin/once", "/bin/true").replace("man:once", "man:true")
                (pathlib.Path(folder) / unit.name).write_text(text)
            files = sorted(str(path) for path in pathlib.Path(folder).iterdir())
            self.assertEqual(len(files), 4)
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", *files], capture_output=True, text=True)
            ours = [line for line in done.stderr.splitlines() if "once" in line]
            self.assertEqual((done.returncode, ours), (0, []), done.stderr)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze here")
    def test_they_are_exposed_little(self):
        for unit, most in (("once.service", "20"), ("once-sweep.service", "20")):
            with self.subTest(unit=unit):
                done = subprocess.run(["systemd-analyze", "security", "--offline=yes", f"--threshold={most}", "--no-pager", str(UNITS / unit)],
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, (done.stdout + done.stderr)[-2000:])


if __name__ == "__main__":
    unittest.main()
