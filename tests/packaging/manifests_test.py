"""The Kubernetes examples, the Containerfile and the units say the same as the binary and its settings."""
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

import yaml

import support

MANIFESTS = sorted((support.ROOT / "packaging/kubernetes").glob("*.yaml"))
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
PROBE = {"exec", "periodSeconds", "timeoutSeconds", "failureThreshold"}
INSTRUCTIONS = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"}


def check(text, *options):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "once.yaml"
        file.write_text(text)
        return subprocess.run([support.ONCE, "check", "--config", str(file), *options], capture_output=True, text=True)


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
            for selector in (spec["selector"]["matchLabels"], kinds["Service"]["spec"]["selector"]):
                self.assertEqual(selector.items() & labels.items(), selector.items())
            container = self.once(kinds)
            self.assertEqual(set(container) - CONTAINER, set())
            if "PodDisruptionBudget" in kinds:
                self.assertLess(kinds["PodDisruptionBudget"]["spec"]["minAvailable"], spec["replicas"])

    def test_the_configuration_can_be_served(self):
        for path, kinds, _ in self.each():
            done = check(kinds["ConfigMap"]["data"]["once.yaml"])
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            config = yaml.safe_load(kinds["ConfigMap"]["data"]["once.yaml"])
            shared = not config.get("store", "journal:").startswith("journal")
            self.assertTrue(shared or self.workload(kinds)["spec"]["replicas"] == 1, "a journal has one owner")

    def test_ports_probes_and_times_agree_with_it(self):
        for path, kinds, _ in self.each():
            config = yaml.safe_load(kinds["ConfigMap"]["data"]["once.yaml"])
            container = self.once(kinds)
            listens = int(config["listen"].rsplit(":", 1)[1])
            self.assertEqual([(port["name"], port["containerPort"]) for port in container["ports"]], [("http", listens)])
            self.assertEqual({port["targetPort"] for port in kinds["Service"]["spec"]["ports"]}, {"http"})
            self.assertEqual(config["admin"], "127.0.0.1:8081", "where once health asks")
            for name in ("startupProbe", "readinessProbe", "livenessProbe"):
                probe = container[name]
                self.assertEqual(set(probe) - PROBE, set())
                command = probe["exec"]["command"]
                self.assertEqual(command[:2], ["/usr/bin/once", "health"])
                self.assertTrue(usage_is_known(command[1:]))
                self.assertEqual("--ready" in command, name == "readinessProbe")
            pod = self.workload(kinds)["spec"]["template"]["spec"]
            before = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
            self.assertGreaterEqual(pod["terminationGracePeriodSeconds"], before + seconds(config["timeouts"]["drain"]) + 5)
            mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
            volumes = {volume["name"] for volume in pod["volumes"]}
            volumes |= {claim["metadata"]["name"] for claim in self.workload(kinds)["spec"].get("volumeClaimTemplates", [])}
            self.assertEqual(set(mounted.values()), volumes)
            self.assertEqual(container["args"], ["--config", "/etc/once/once.yaml"])
            self.assertIn("/etc/once", mounted)

    def test_nothing_runs_as_root_and_no_secret_is_written_down(self):
        for path, kinds, documents in self.each():
            pod = self.workload(kinds)["spec"]["template"]["spec"]
            self.assertTrue(pod["securityContext"]["runAsNonRoot"])
            security = self.once(kinds)["securityContext"]
            self.assertEqual(security["capabilities"], {"drop": ["ALL"]})
            self.assertTrue(security["readOnlyRootFilesystem"])
            self.assertFalse(security["allowPrivilegeEscalation"])
            self.assertNotIn("Secret", kinds)
            for variable in self.once(kinds)["env"]:
                self.assertIn("secretKeyRef", variable["valueFrom"])


class Containerfile(unittest.TestCase):
    def setUp(self):
        text = re.sub(r"^#.*\n", "", (support.ROOT / "packaging/Containerfile").read_text(), flags=re.MULTILINE)
        lines = re.sub(r"\\\n\s*", "", text).splitlines()
        self.steps = [tuple(line.split(" ", 1)) for line in lines if line.strip()]

    def last(self, name):
        return [rest for instruction, rest in self.steps if instruction == name][-1]

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
        self.assertEqual(self.last("USER"), "once:once")
        self.assertIn("/etc/once/secret", self.last("RUN"))
        self.assertNotIn("ENV", {name for name, _ in self.steps})

    def test_its_commands_are_those_of_the_binary(self):
        entry = yaml.safe_load(self.last("ENTRYPOINT"))
        command = yaml.safe_load(self.last("CMD"))
        self.assertTrue(usage_is_known([*entry[1:], *command]))
        self.assertTrue(usage_is_known(yaml.safe_load(self.last("HEALTHCHECK").split(" CMD ")[1])[1:]))
        options = ["--set", "environment=production", "--set", "data_dir=/var/lib/once"]
        self.assertEqual(entry, ["/usr/bin/once", "serve", *options])
        done = check((support.ROOT / "packaging/once.yaml").read_text(), *options, *command[:2])
        self.assertEqual(done.returncode, 0, done.stderr)


class Units(unittest.TestCase):
    def value(self, unit, name):
        return re.findall(rf"^{name}=(.*)$", (UNITS / unit).read_text(), re.MULTILINE)

    def test_the_configuration_of_the_package_can_be_served(self):
        done = check((support.ROOT / "packaging/once.yaml").read_text())
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_commands_are_those_of_the_binary(self):
        for unit in ("once.service", "once-sweep.service"):
            for command in self.value(unit, "Exec(?:Start|StartPre)"):
                words = shlex.split(command)
                self.assertEqual(words[0], "/usr/bin/once")
                self.assertTrue(usage_is_known(words[1:]), command)
        drain = 30
        self.assertGreater(seconds(self.value("once.service", "TimeoutStopSec")[0]), drain)
        config = yaml.safe_load((support.ROOT / "packaging/once.yaml").read_text())
        self.assertEqual(self.value("once.socket", "ListenStream"), [config["listen"]])
        self.assertEqual(config["data_dir"], "/var/lib/" + self.value("once.service", "StateDirectory")[0])

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
