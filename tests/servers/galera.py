"""Three MariaDB servers on loopback as a Galera cluster: any of them takes writes, and a commit is all of theirs."""
import os
import signal

from mariadb import ACCOUNTS, DEADLINE, Node, apply_schema
from server import Folder, free_port, wait_until

PROVIDER = "/usr/lib/galera/libgalera_smm.so"


class GaleraNode(Node):
    def __init__(self, folder, name, cluster, at):
        ports = cluster[at]
        others = ",".join(f"127.0.0.1:{each['group']}" for each in cluster)
        options = ";".join([
            f"gmcast.listen_addr=tcp://127.0.0.1:{ports['group']}", f"ist.recv_addr=127.0.0.1:{ports['ist']}",
            f"base_port={ports['group']}", "gcache.size=32M", "gcs.fc_limit=256",
            # A node that is gone is noticed in seconds, so that a test need not wait for longer.
            "evs.suspect_timeout=PT2S", "evs.inactive_timeout=PT4S", "evs.keepalive_period=PT0.5S",
            "evs.inactive_check_period=PT0.5S", "pc.recovery=false"])
        super().__init__(folder, name, [
            "--wsrep-on=ON", f"--wsrep-provider={PROVIDER}", f"--wsrep-provider-options={options}",
            f"--wsrep-cluster-address=gcomm://{others}", "--wsrep-cluster-name=once", f"--wsrep-node-name={name}",
            f"--wsrep-node-address=127.0.0.1:{ports['group']}", "--wsrep-sst-method=rsync",
            f"--wsrep-sst-receive-address=127.0.0.1:{ports['sst']}", "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2",
            "--wsrep-slave-threads=2"])

    def run(self, first=False):
        usual = self.process.command
        self.process.command = [*usual, "--wsrep-new-cluster"] if first else usual
        self.process.start()
        self.process.command = usual
        return self

    def ready(self):
        self.process.alive()
        done = self.client("SHOW STATUS LIKE 'wsrep_ready'", check=False)
        return done.returncode == 0 and done.stdout.split() == ["wsrep_ready", "ON"]


class Galera:
    def __init__(self, name="galera"):
        self.folder = Folder(name, user="mysql")
        cluster = [{what: free_port() for what in ("group", "ist", "sst")} for _ in range(3)]
        self.nodes = [GaleraNode(self.folder, f"{name}{at}", cluster, at) for at in range(3)]

    def start(self):
        if not os.path.exists(PROVIDER):
            raise RuntimeError(f"{PROVIDER} is missing: install galera-4")
        self.nodes[0].install()
        self.nodes[0].run(first=True).wait()
        self.nodes[0].client(ACCOUNTS)
        for node in self.nodes[1:]:  # one after the other, as each is copied from those before it
            node.run().wait()
        apply_schema(self.url())
        return self

    def url(self):
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"mysql://once:once@{hosts}/once"

    def sql(self, text, node=0):
        return self.nodes[node].client(text, database="once").stdout

    def size(self, node=0):
        """How many nodes this one sees in its part of the cluster; 0 while that is not the larger part."""
        return int(self.nodes[node].client("SELECT COALESCE(MAX(VARIABLE_VALUE), 0) FROM information_schema.GLOBAL_STATUS "
                                           "WHERE VARIABLE_NAME = 'wsrep_cluster_size'").stdout)

    def kill_node(self, node):
        self.nodes[node].process.kill()

    def pause_node(self, node):
        self.nodes[node].process.pause()

    def resume_node(self, node):
        self.nodes[node].process.resume()

    def restart_node(self, node):
        """It comes back to the others, who must be there."""
        self.nodes[node].process.stop()
        self.nodes[node].run().wait()

    def wait_size(self, size, node=0):
        wait_until(lambda: self.size(node) == size, f"a cluster of {size}", DEADLINE)

    def stop(self):
        # What it holds is thrown away, so nobody waits for it to leave in order.
        for node in self.nodes:
            node.process.stop(signal.SIGKILL)
        self.folder.remove()
