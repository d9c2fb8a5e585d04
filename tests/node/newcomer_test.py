"""What a newcomer does: a fresh npm project, the package from its tarball, and the programs of the README."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import catalog
import package
from services import SECRET, Services
from wire import Client, created

PROGRAM = re.compile(r"<!-- run -->\n```js\n(.*?)```\n\n```\n(.*?)```", re.DOTALL)
SERVICE = re.compile(r"<!-- run service -->\n```js\n(.*?)```", re.DOTALL)
ORDER = [("Content-Type", "application/json")]
EVENTS = b"id: 1\ndata: Hello,\n\nid: 2\ndata: world\n\n"


def streamed(request, connection):
    """A model behind the gateway of the README."""
    if request.target != "/chat":
        created(request, connection)
        return
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
                    f"{len(EVENTS):x}\r\n".encode() + EVENTS + b"\r\n0\r\n\r\n")


class Newcomer(Services):
    @classmethod
    def setUpClass(cls):
        cls.page = (package.SOURCE / "README.md").read_text()
        cls.projects = {}

    def fresh_project(self, *packages):
        """A copy of one into which npm has installed our package and these."""
        if packages not in self.projects:
            made = self.projects[packages] = pathlib.Path(tempfile.mkdtemp(prefix="once-newcomer-"))
            self.addClassCleanup(shutil.rmtree, made)
            (made / "package.json").write_text(json.dumps({"name": "fresh", "private": True, "type": "module"}))
            package.add(made, package.tarball(), *packages)
        folder = self.folder() / "fresh"
        shutil.copytree(self.projects[packages], folder, symlinks=True)
        return folder

    def run_node(self, folder, *arguments, **env):
        done = subprocess.run([package.node(), *arguments], cwd=folder, capture_output=True, text=True, timeout=60,
                              env={**os.environ, "ONCE_SECRET": SECRET, **env})
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def start(self, folder, program, **env):
        """A service that listens on a port of its own choice, which is returned."""
        tell = "app.listen(0, \"127.0.0.1\", function () { console.log(this.address().port); });"
        (folder / "service.mjs").write_text(program.replace("app.listen(3000);", tell))
        process = subprocess.Popen([package.node(), "service.mjs"], cwd=folder, stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, "ONCE_SECRET": SECRET, **env})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return int(process.stdout.readline())

    def order(self, port, key="order-7"):
        with Client(port) as client:
            return client.ask("POST", "/orders", ORDER, b'{"book": 7}', key=key)

    def test_the_service_of_the_readme_replays_on_a_journal_and_on_postgresql(self):
        program = SERVICE.search(self.page)[1]
        self.assertLessEqual(len([line for line in program.splitlines() if line]), 6, "a few lines are enough")
        folder = self.fresh_project("express@5.1.0")
        database = catalog.make("postgres")
        self.addCleanup(database.stop)
        database.start()
        for store in ("journal:once-data", database.url()):
            with self.subTest(store.split(":")[0]):
                port = self.start(folder, program.replace("journal:once-data", store))
                first, again = self.order(port), self.order(port)
                self.assertEqual((first.status, first.body), (201, b'{"book":7,"paid":true}'))
                self.assertEqual((again.status, again.body, again.get("Idempotency-Replayed")), (201, first.body, "true"))

    def test_the_programs_of_the_readme_print_what_it_shows(self):
        folder = self.fresh_project()
        programs = PROGRAM.findall(self.page)
        self.assertEqual(len(programs), self.page.count("<!-- run -->"))
        gateway = self.gateway(self.backend(streamed))
        for number, (program, expected) in enumerate(programs):
            (folder / f"program{number}.mjs").write_text(program.replace("http://127.0.0.1:8080", f"http://127.0.0.1:{gateway.port}"))
            self.assertEqual(self.run_node(folder, f"program{number}.mjs", ONCE_STORE=f"journal:{self.folder()}"), expected)

    def test_the_addon_can_be_built_from_source(self):
        folder = self.fresh_project()
        installed = folder / "node_modules" / "once"
        (installed / "prebuilds" / "linux-x64" / "once.node").unlink()
        program = 'import { Gate } from "once"; await (await Gate.open({ store: "memory:" })).close(); console.log("opened");'
        failed = subprocess.run([package.node(), "--input-type=module", "-e", program], cwd=folder, capture_output=True, text=True)
        self.assertIn("npm rebuild once", failed.stderr)
        package.run("npm", "rebuild", "once", cwd=folder)
        self.assertTrue((installed / "build" / "once.node").exists())
        self.assertEqual(self.run_node(folder, "--input-type=module", "-e", program, ONCE_LOG="off").strip().splitlines()[-1], "opened")

    def test_common_js_and_no_addon_where_none_is_needed(self):
        folder = self.fresh_project()
        (folder / "node_modules" / "once" / "prebuilds" / "linux-x64" / "once.node").unlink()
        program = 'const { fetchOnce } = require("once/fetch"); const { Once } = require("once/claims"); console.log(typeof fetchOnce, typeof Once);'
        self.assertEqual(self.run_node(folder, "--input-type=commonjs", "-e", program), "function function\n")


if __name__ == "__main__":
    unittest.main()
