"""The stores that gateways under fault can share or have of their own: start(), stop(), and a url for each gateway."""
import shutil
import tempfile

from harness import run_once


class Journal:
    """A folder for each gateway: nothing is shared, so a key must stay with its gateway."""
    name = "journal"
    shared = False

    def start(self):
        self.folder = tempfile.mkdtemp(prefix="once-chaos-")

    def url(self, gateway):
        return f"journal:{self.folder}/{gateway}"

    def check(self, test, gateways):
        """What the store's own tools say in the end, when no gateway runs."""
        for gateway in gateways:
            result = run_once("journal", "verify", f"{self.folder}/{gateway}")
            test.assertEqual(result.returncode, 0, result)

    def stop(self):
        shutil.rmtree(self.folder)


STORES = {store.name: store for store in (Journal,)}
