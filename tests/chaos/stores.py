"""The stores that gateways under fault can share or have of their own: start(), stop(), a url for each gateway, and what can
go wrong with the store itself."""
import contextlib
import shutil
import subprocess
import tempfile
import urllib.parse

import catalog
from harness import run_once
from proxy import FaultProxy
from wire import wait_until
from world import SteppedClock, drawn_step


def harmless(fault):
    """Marks what may make clients wait, but is no reason to execute anything again or not to record it."""
    fault.harmless = True
    return fault


class Journal:
    """A folder for each gateway: nothing is shared, so a key must stay with its gateway."""
    shared = False
    settings = ""

    def __init__(self, name):
        self.name = name

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
    settings = "server: {timeout: 1s, connect_timeout: 1s, connections: 2}\n"

    def __init__(self, name):
        self.name = name
        self.entrance = self.server = catalog.make(name)  # what gateways connect to, and what keeps the records
        self.clock = SteppedClock()
        self._proxies = {}

    def start(self):
        self.entrance.start()

    def url(self, gateway):
        if gateway not in self._proxies:
            self._proxies[gateway] = FaultProxy(self._port(), f"store of {gateway}")
        return self.entrance.url().replace(f":{self._port()}", f":{self._proxies[gateway].port}")

    def _port(self):
        return urllib.parse.urlsplit(self.entrance.url()).port

    def faults(self):
        """Each takes what it may draw from and how to wait for some seconds, and leaves the store as it was."""
        return [self.killed, self.killed, self.paused, self.paused, self.stalled, self.cut, self.cut, self.refused,
                self.clock_stepped]

    def killed(self, drawn, wait):
        self.server.kill()
        wait(drawn.uniform(0, 0.5))
        self.server.restart()

    def paused(self, drawn, wait):
        self.server.pause()
        wait(drawn.uniform(0.1, 3))
        self.server.resume()

    def clock_stepped(self, drawn, _):
        step = drawn_step(drawn)
        self.clock.step(step)
        self.server.folder.advance(step)

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
        self.entrance.stop()


class Sql(Served):
    # By one that waits for others for a moment only: who comes after it waits behind it.
    patience = {"postgres": "SET lock_timeout = '300ms'", "postgres_pooler": "SET lock_timeout = '300ms'",
                "mariadb": "SET lock_wait_timeout = 1", "mariadb_plain": "SET lock_wait_timeout = 1"}

    def faults(self):
        return [*super().faults(), self.schema_upgraded]

    def schema_upgraded(self, drawn, wait):
        """To a later one that gateways of today can use, and back."""
        self._change("ALTER TABLE once_operations ADD COLUMN IF NOT EXISTS later integer NOT NULL DEFAULT 7", "revision + 1")
        wait(drawn.uniform(0.2, 2))
        self._change("ALTER TABLE once_operations DROP COLUMN IF EXISTS later", "revision - 1")

    def _change(self, alter, revision):
        def changed():
            with contextlib.suppress(RuntimeError, subprocess.CalledProcessError):
                self.server.sql(f"{self.patience[self.name]}; {alter}; UPDATE once_schema SET revision = {revision}")
                return True

        wait_until(changed, what="the schema to change")


class PostgresPooler(Sql):
    """PostgreSQL with PgBouncer in transaction mode before it, and trouble with both."""

    def __init__(self, name):
        super().__init__("pgbouncer")
        self.name = name
        self.server = self.entrance.postgres

    def faults(self):
        return [*super().faults(), self.pooler_killed, self.pooler_killed, self.pooler_hung, self.pooler_paused,
                self.sessions_ended, self.sessions_ended, self.everybody_disconnected]

    def pooler_killed(self, drawn, wait):
        self.entrance.kill()
        wait(drawn.uniform(0, 0.5))
        self.entrance.restart()

    def pooler_hung(self, drawn, wait):
        self.entrance.pause()
        wait(drawn.uniform(0.1, 3))
        self.entrance.resume()

    def pooler_paused(self, drawn, wait):
        """As an operator does before a restart of the database: transactions end, the next ones wait in the pooler."""
        self.entrance.command("PAUSE")
        wait(drawn.uniform(0.1, 3))
        self.entrance.command("RESUME")

    def sessions_ended(self, drawn, wait):
        """Those of the pooler at the server, in the middle of whatever they do."""
        for _ in range(drawn.randint(1, 10)):
            self.server.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
            wait(drawn.uniform(0, 0.1))

    def everybody_disconnected(self, drawn, wait):
        """The pooler drops its clients and its sessions, and lets nobody in for a while."""
        self.entrance.command("KILL postgres")
        wait(drawn.uniform(0, 1))
        self.entrance.command("RESUME postgres")


class Redis(Served):
    def faults(self):
        return [*super().faults(), self.memory_full, self.memory_full]

    @harmless
    def memory_full(self, drawn, wait):
        """No new key gets in; what is at work is finished."""
        self.server.command("CONFIG", "SET", "maxmemory", 1)
        wait(drawn.uniform(0.2, 2))
        self.server.command("CONFIG", "SET", "maxmemory", 0)


class RedisCluster(Served):
    """Its nodes tell where they are, so nothing can be put between. A write counts when the replica has it."""
    settings = Served.settings + "redis: {wait_replicas: 1}\n"

    def __init__(self, _):
        super().__init__("redis_cluster_chaos")

    def url(self, gateway):
        return self.server.url()

    def faults(self):
        return [self.failed_over, self.master_killed, self.master_paused, self.slots_moved, self.memory_full]

    @harmless
    def memory_full(self, drawn, wait):
        node = self.server.masters()[drawn.randrange(3)]
        node.ask("CONFIG", "SET", "maxmemory", 1)
        wait(drawn.uniform(0.2, 2))
        node.ask("CONFIG", "SET", "maxmemory", 0)

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
    kinds = {"journal": Journal, "postgres": Sql, "postgres_pooler": PostgresPooler, "mariadb": Sql, "mariadb_plain": Sql,
             "redis": Redis, "redis_cluster": RedisCluster, "galera": Galera}
    return kinds[name](name)
