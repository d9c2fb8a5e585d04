"""The stores that gateways under fault can share or have of their own: start(), stop(), a url for each gateway, and what can
go wrong with the store itself."""
import shutil
import tempfile
import urllib.parse

import catalog
from harness import run_once
from proxy import FaultProxy
from wire import wait_until


class Journal:
    """A folder for each gateway: nothing is shared, so a key must stay with its gateway."""
    name = "journal"
    shared = False
    settings = ""

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


class Served:
    """A server that all gateways share, each through a proxy of its own that makes trouble."""
    shared = True
    settings = "server: {timeout: 1s, connect_timeout: 1s, sweep_every: 1s, connections: 2}\n"

    def __init__(self, name):
        self.name = name
        self.server = catalog.make(name)
        self._proxies = {}

    def start(self):
        self.server.start()

    def url(self, gateway):
        if gateway not in self._proxies:
            self._proxies[gateway] = FaultProxy(self._port(), f"store of {gateway}")
        return self.server.url().replace(f":{self._port()}", f":{self._proxies[gateway].port}")

    def _port(self):
        return urllib.parse.urlsplit(self.server.url()).port

    def faults(self):
        """Each takes what it may draw from and how to wait for some seconds, and leaves the store as it was."""
        return [self.killed, self.killed, self.paused, self.paused, self.stalled, self.cut, self.cut, self.refused]

    def killed(self, drawn, wait):
        self.server.kill()
        wait(drawn.uniform(0, 0.5))
        self.server.restart()

    def paused(self, drawn, wait):
        self.server.pause()
        wait(drawn.uniform(0.1, 3))
        self.server.resume()

    def stalled(self, drawn, wait):
        proxy = self._drawn_proxy(drawn)
        proxy.stall()
        wait(drawn.uniform(0.1, 3))
        proxy.flow()

    def cut(self, drawn, wait):
        proxy = self._drawn_proxy(drawn)
        proxy.cutting = drawn.choice((0.02, 0.2))
        wait(drawn.uniform(0.2, 1))
        proxy.cutting = 0.0

    def refused(self, drawn, wait):
        proxy = self._drawn_proxy(drawn)
        proxy.refuse()
        wait(drawn.uniform(0.1, 1))
        proxy.listen()

    def _drawn_proxy(self, drawn):
        return self._proxies[drawn.choice(sorted(self._proxies))]

    def check(self, test, gateways):
        """There is nothing beside what the gateways say."""

    def stop(self):
        for proxy in self._proxies.values():
            proxy.stop()
        self.server.stop()


class RedisCluster(Served):
    """Its nodes tell where they are, so nothing can be put between. A write counts when the replica has it."""
    settings = Served.settings + "redis: {wait_replicas: 1, wait_timeout: 500ms}\n"

    def __init__(self):
        super().__init__("redis_cluster_chaos")

    def url(self, gateway):
        return self.server.url()

    def faults(self):
        return [self.failed_over, self.master_killed, self.master_paused, self.slots_moved]

    def failed_over(self, _, wait):
        """As an operator does, before a machine is taken away."""
        self.server.failover()
        self._settle()

    def master_killed(self, drawn, wait):
        node = self.server.kill_master(drawn.randrange(3))
        wait(drawn.uniform(0.5, 4))
        node.restart()
        self._settle()

    def master_paused(self, drawn, wait):
        """Perhaps for so long that its replica takes over, and it comes back with old ideas."""
        node = self.server.masters()[drawn.randrange(3)]
        node.pause()
        wait(drawn.uniform(0.2, 4))
        node.resume()
        self._settle()

    def slots_moved(self, drawn, _):
        source, target = drawn.sample(self.server.masters(), 2)
        for slot in drawn.sample(self._slots_of(source), 30):
            self.server.move_slot(slot, source, target)
        self._settle()

    def _slots_of(self, node):
        line = next(line for line in node.ask("CLUSTER", "NODES").splitlines() if "myself" in line)
        ranges = (part.split("-") for part in line.split()[8:] if not part.startswith("["))
        return [slot for ends in ranges for slot in range(int(ends[0]), int(ends[-1]) + 1)]

    def _settle(self):
        wait_until(self.server.settled, 60, "the cluster to settle")


class Galera(Served):
    """Any node takes writes. Two of the three are always well: fewer could not go on."""

    def url(self, gateway):
        return self.server.url()

    def faults(self):
        return [self.node_killed, self.node_paused, self.node_paused]

    def node_killed(self, drawn, wait):
        node = drawn.randrange(3)
        self.server.kill_node(node)
        wait(drawn.uniform(0, 3))
        self.server.restart_node(node)

    def node_paused(self, drawn, wait):
        """Perhaps for so long that the others go on without it."""
        node = drawn.randrange(3)
        self.server.pause_node(node)
        wait(drawn.uniform(0.5, 6))
        self.server.resume_node(node)
        self.server.wait_size(3, node)


def make(name):
    special = {"journal": Journal, "redis_cluster": RedisCluster}
    if name == "galera":
        return Galera(name)
    return special[name]() if name in special else Served(name)
