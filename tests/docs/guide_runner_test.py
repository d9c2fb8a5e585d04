"""Whoever follows the guides notices when a page is wrong: each of these pages has one mistake."""
import pathlib
import tempfile
import unittest
from unittest import mock

import guide
import manifests
import support

MANIFEST = """apiVersion: v1
kind: Secret
metadata: {name: settings}
stringData:
  secret: 6d7f0c1e5b9a48d2837465fa0b1c2d3e
  once.yaml: |
    listen: 0.0.0.0:8080
    admin: 127.0.0.1:8081
    admin_token: 0123456789abcdef0123456789abcdef
    secret_file: /etc/once/secret
    data_dir: /var/lib/once
    timeouts: {drain: 70s}
    defaults: {caller_missing: reject}
    upstreams: {default: "http://127.0.0.1:9000"}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: once}
spec:
  replicas: 1
  selector: {matchLabels: {app: once}}
  template:
    metadata: {labels: {app: once}}
    spec:
      terminationGracePeriodSeconds: 85
      securityContext: {runAsNonRoot: true, runAsUser: 65532, fsGroup: 65532}
      containers:
        - name: once
          image: once:0.1.0
          args: [--config, /etc/once/once.yaml]
          ports: [{containerPort: 8080}]
          readinessProbe: {tcpSocket: {port: 8080}}
          livenessProbe: {tcpSocket: {port: 8080}}
          lifecycle: {preStop: {sleep: {seconds: 5}}}
          volumeMounts: [{name: settings, mountPath: /etc/once}, {name: data, mountPath: /var/lib/once}]
      volumes: [{name: settings, secret: {secretName: settings}}]
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOncePod]}}]
"""


class Follower(unittest.TestCase):
    def follow(self, text):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(support, "ROOT", pathlib.Path(folder)):
            page = pathlib.Path(folder) / "page.md"
            page.write_text(text)
            shell = guide.Shell()
            self.addCleanup(shell.stop)
            guide.Follower(page, shell).follow()

    def refused(self, text, why):
        with self.assertRaisesRegex(AssertionError, why):
            self.follow(text)

    def test_a_page_that_is_right(self):
        page = ("<!-- file: a.py -->\n```python\nprint('port 8080')\n```\n\n```sh\nNAME=a\nsleep 100 & JOB=$!\n```\n\n"
                "```console\n$ python3 $NAME.py a.py\nport 8080\n$ kill $JOB; echo $?\n0\n$ echo one two \\\n  three\none…three\n```\n")
        self.follow(page)

    def test_mistakes_in_commands(self):
        self.refused("```sh\nfalse\ntrue\n```\n", "this failed")
        self.refused("```console\n$ echo one\ntwo\n```\n", "should print")
        self.refused("```console\n$ echo one; echo two\none\n```\n", "should print")
        self.refused("```console\n$ true\nHTTP/1.1 201…\n```\n", "should print")

    def test_blocks_that_nothing_runs(self):
        self.refused("```ruby\nputs 1\n```\n", "nothing runs")
        self.refused("```\nonce serve\n```\n", "nothing runs")
        self.refused("```python\nprint(1)\n```\n", "nothing runs")
        self.refused("<!-- file: a.py -->\n```python\nprint(1)\n```\n", "nothing uses")
        self.refused("  ```sh\n  false\n  ```\n", "no block of its own")

    def test_files_that_are_wrong(self):
        self.refused("```yaml\nlisten: nowhere\n```\n", "listen")
        self.refused("```json\n{,}\n```\n", "JSON")
        self.refused("```nginx\nserver { listen 8000; proxy_next_upstream sometimes; }\n```\n", "sometimes")


class Manifests(unittest.TestCase):
    def test_a_manifest_that_is_right(self):
        manifests.check(MANIFEST)

    def test_mistakes(self):
        for was, becomes in (("0.0.0.0:8080", "nowhere"), ("replicas: 1", "replicas: 2"), ("Seconds: 85", "Seconds: 75"),
                             ("{app: once}}\n  template", "{app: other}}\n  template"), ("mountPath: /etc/once", "mountPath: /etc/other"),
                             ("[--config", "[serve, --config"), ("    secret_file: /etc/once/secret\n", ""),
                             ("fsGroup: 65532", "fsGroup: 1"), ("once:0.1.0", "once:1"),
                             ("mountPath: /var/lib/once", "mountPath: /var/lib/other"), ("containerPort: 8080", "containerPort: 80"),
                             ("readinessProbe: {tcpSocket: {port: 8080}}", "readinessProbe: {tcpSocket: {port: 8081}}"),
                             ("secretName: settings", "secretName: another"), ("apiVersion: apps/v1\n", "")):
            with self.subTest(mistake=becomes):
                self.assertIn(was, MANIFEST)
                with self.assertRaises(AssertionError):
                    manifests.check(MANIFEST.replace(was, becomes))


if __name__ == "__main__":
    unittest.main()
