"""Redis in every shape that the store knows: one server (plain, with TLS, with a user), one that sentinels watch over, and
a cluster of three masters with a replica each.
"""
import contextlib
import signal
import socket
import subprocess
import time

import server

NO_FAILOVER_MS = 100_000_000  # a test moves the wall clock by minutes, and nobody should be missed for it
QUICK_FAILOVER_MS = 1500
# A replica that was elected less than four node timeouts ago, is demoted and then loses its master counts the old votes
# again: it becomes a master of a past epoch whom nobody believes, and the slots stay down. Seen with Redis 7.0.15.
BETWEEN_ELECTIONS_S = 4 * QUICK_FAILOVER_MS / 1000 + 2
SLOTS = 16384


def free_ports(count):
    """With the port 10000 above each of them free, too: cluster nodes talk to each other there."""
    found = []
    while len(found) < count:
        port = server.free_port()
        bus = port + 10000
        if bus >= server.LAST_PORT or {port, bus} & {taken for each in found for taken in (each, each + 10000)}:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", bus))
            found.append(port)
    return found


class Instance(server.Process):
    """One redis-server process in the folder of its set-up."""

    def __init__(self, folder, name, port, *options, cli=()):
        self.port = port
        self.cli = cli
        self.data = folder.make(name)
        super().__init__(folder, name, [
            "redis-server", "--bind", "127.0.0.1", "--dir", self.data, "--save", "", "--appendonly", "yes",
            "--appendfsync", "always", "--enable-debug-command", "yes", *options])

    def try_ask(self, *arguments):
        done = subprocess.run(["redis-cli", "-p", str(self.port), *self.cli, *map(str, arguments)],
                              capture_output=True, text=True, timeout=server.DEADLINE, check=False)
        return done.stdout.strip()

    def ask(self, *arguments):
        said = self.try_ask(*arguments)
        if said.startswith(("ERR", "NOAUTH", "(error)")):
            raise RuntimeError(f"{self.name}: {arguments}: {said}")
        return said

    def info(self, section):
        lines = (line.split(":", 1) for line in self.ask("INFO", section).splitlines() if ":" in line)
        return {name: value.strip() for name, value in lines}

    def wait_ready(self):
        server.wait_until(lambda: self.alive() and self.try_ask("PING") == "PONG", f"{self.name} to answer")
        return self

    def restart(self):
        self.stop()
        self.start()
        self.wait_ready()


class Setup:
    """Some instances in one folder."""

    def __init__(self, name):
        self.folder = server.Folder(name)
        self.instances = []

    def add(self, name, port, *options, cli=()):
        instance = Instance(self.folder, name, port, "--port", port, *options, cli=cli)
        self.instances.append(instance)
        return instance

    def stop(self):
        for instance in self.instances:
            instance.stop(signal.SIGKILL)
        self.folder.remove()


class Redis(Setup):
    def __init__(self, name="redis"):
        super().__init__(name)
        self.only = self.add("server", free_ports(1)[0])

    def start(self):
        self.only.start()
        self.only.wait_ready()

    def url(self):
        return f"redis://127.0.0.1:{self.only.port}"

    def command(self, *arguments):
        return self.only.ask(*arguments)

    def kill(self):
        self.only.kill()

    def pause(self):
        self.only.pause()

    def resume(self):
        self.only.resume()

    def restart(self):
        self.only.restart()


class RedisTls(Setup):
    """TLS only, and a user with a password. In its folder, stranger.pem is an authority that signed nothing here."""

    def __init__(self, name="redis_tls"):
        super().__init__(name)
        ours = self.make_authority("ours")
        self.make_authority("stranger")
        key, certificate = self.make_certificate(ours)
        self.ca = ours[1]
        self.port = free_ports(1)[0]
        self.only = Instance(
            self.folder, "server", self.port, "--port", 0, "--tls-port", self.port, "--tls-cert-file", certificate,
            "--tls-key-file", key, "--tls-ca-cert-file", self.ca, "--tls-auth-clients", "no",
            "--user", "gateway", "on", ">p@ss:word/1", "~once:*", "&once:*", "+@all", "--user", "default", "off",
            cli=("--tls", "--cacert", str(self.ca), "--user", "gateway", "--pass", "p@ss:word/1", "--no-auth-warning"))
        self.instances.append(self.only)

    def openssl(self, *arguments):
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, cwd=self.folder.path)

    def make_authority(self, who):
        key, certificate = self.folder.path / f"{who}.key", self.folder.path / f"{who}.pem"
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 2,
                     "-subj", f"/CN={who}", "-keyout", key, "-out", certificate)
        return key, certificate

    def make_certificate(self, authority):
        key, request, certificate = (self.folder.path / f"server.{what}" for what in ("key", "csr", "pem"))
        names = self.folder.path / "names"
        names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=redis",
                     "-keyout", key, "-out", request)
        self.openssl("x509", "-req", "-in", request, "-CA", authority[1], "-CAkey", authority[0], "-CAcreateserial",
                     "-days", 2, "-extfile", names, "-out", certificate)
        return key, certificate

    def start(self):
        self.only.start()
        self.only.wait_ready()

    def url(self):
        return f"rediss://gateway:p%40ss%3Aword%2F1@localhost:{self.port}?ca={self.ca}"


class RedisSentinel(Setup):
    """A master, a replica and three sentinels that agree by two."""

    def __init__(self, name="redis_sentinel"):
        super().__init__(name)
        ports = free_ports(5)
        self.master = self.add("first", ports[0])
        self.replica = self.add("second", ports[1], "--replicaof", "127.0.0.1", ports[0])
        self.sentinels = [self.make_sentinel(f"sentinel{i}", port) for i, port in enumerate(ports[2:])]

    def make_sentinel(self, name, port):
        config = self.folder.path / f"{name}.conf"
        config.write_text(f"port {port}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {self.master.port} 2\n"
                          "sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 4000\n")
        sentinel = server.Process(self.folder, name, ["redis-server", config, "--sentinel"], skewed=False)
        sentinel.port = port
        return sentinel

    def start(self):
        self.master.start()
        self.master.wait_ready()
        self.replica.start()
        self.replica.wait_ready()
        server.wait_until(lambda: self.replica.info("replication").get("master_link_status") == "up", "the replica")
        for sentinel in self.sentinels:
            sentinel.start()
        server.wait_until(self.sentinels_agree, "the sentinels to find each other")

    def sentinels_agree(self):
        return all(self.ask_sentinel(sentinel) for sentinel in self.sentinels)

    @staticmethod
    def ask_sentinel(sentinel):
        said = subprocess.run(["redis-cli", "-p", str(sentinel.port), "SENTINEL", "MASTER", "main"], capture_output=True,
                              text=True, timeout=server.DEADLINE, check=False).stdout.split()
        facts = dict(zip(said[::2], said[1::2]))
        return facts.get("num-other-sentinels") == "2" and facts.get("num-slaves") == "1"

    def stop(self):
        for sentinel in self.sentinels:
            sentinel.stop(signal.SIGKILL)
        super().stop()

    def url(self):
        return "redis://" + ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels) + "?sentinel=main"


class RedisCluster(Setup):
    def __init__(self, name="redis_cluster", node_timeout_ms=NO_FAILOVER_MS):
        super().__init__(name)
        # The replicas' wall clocks are the masters': all are moved together.
        self.nodes = [self.add(f"node{i}", port, "--cluster-enabled", "yes", "--cluster-node-timeout", node_timeout_ms,
                               "--cluster-replica-validity-factor", 0, "--repl-diskless-sync-delay", 0)
                      for i, port in enumerate(free_ports(6))]
        self.elections = [0.0] * 3  # when there was the last, by pair: a node and the one three after it

    def start(self):
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.wait_ready()
        masters = self.nodes[:3]
        for i, node in enumerate(masters):
            first, last = i * SLOTS // 3, (i + 1) * SLOTS // 3 - 1
            node.ask("CLUSTER", "ADDSLOTSRANGE", first, last)
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for node in self.nodes[1:]:
            node.ask("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        server.wait_until(lambda: all(self.knows_all(node) for node in self.nodes), "the nodes to meet")
        for i, node in enumerate(self.nodes[3:]):
            node.ask("CLUSTER", "REPLICATE", self.id_of(masters[i]))
        server.wait_until(self.settled, "the cluster to settle")

    def knows_all(self, node):
        return node.try_ask("CLUSTER", "NODES").count(" connected") >= len(self.nodes)

    @staticmethod
    def id_of(node):
        return node.ask("CLUSTER", "MYID")

    @staticmethod
    def view_of(node):
        """Who is whose replica and who has which slots, as this node sees it."""
        lines = (line.split() for line in node.try_ask("CLUSTER", "NODES").splitlines())
        return frozenset((fields[0], fields[2].replace("myself,", ""), fields[3], *fields[8:])
                         for fields in lines if "fail" not in fields[2])

    def settled(self):
        """Every slot is served, every replica is linked, and all say the same."""
        living = [node for node in self.nodes if node.process.poll() is None]
        roles = [node.info("replication") for node in living]
        replicas = [role for role in roles if role.get("role") == "slave"]
        return (all("cluster_state:ok" in node.try_ask("CLUSTER", "INFO") for node in living)
                and len(living) - len(replicas) == 3
                and all(role.get("master_link_status") == "up" for role in replicas)
                and len({self.view_of(node) for node in living}) == 1)

    def url(self):
        return "redis://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes[:3]) + "?cluster=1"

    def masters(self):
        return [node for node in self.nodes
                if node.process.poll() is None and node.info("replication").get("role") == "master"]

    def elects(self, node):
        self.elections[self.nodes.index(node) % 3] = time.monotonic()

    def kill_master(self, index=0):
        node = self.masters()[index]
        self.elects(node)
        node.kill()
        return node

    def failover(self):
        """A replica takes over from a master that lives, without losing anything."""
        replicas = [node for node in self.nodes
                    if node.process.poll() is None and node.info("replication").get("role") == "slave"]
        replica = min(replicas, key=lambda node: self.elections[self.nodes.index(node) % 3])
        earliest = self.elections[self.nodes.index(replica) % 3] + BETWEEN_ELECTIONS_S
        server.wait_until(lambda: time.monotonic() >= earliest, "the last election to be over")
        self.elects(replica)
        replica.ask("CLUSTER", "FAILOVER")
        return replica

    def move_slot(self, slot, source, target):
        """Live: keys go one by one, and clients are redirected meanwhile."""
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))
        while keys := source.ask("CLUSTER", "GETKEYSINSLOT", slot, 10).split():
            source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        for node in (target, source):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(target))


class RedisClusterChaos(RedisCluster):
    """With a failover as soon as a master is gone."""

    def __init__(self, name="redis_cluster_chaos"):
        super().__init__(name, QUICK_FAILOVER_MS)
