"""Every server that a store can be tested on, by name."""
import importlib

SERVERS = {"postgres": ("postgres", "Postgres"),
           "mariadb": ("mariadb", "MariaDb"),
           "galera": ("galera", "Galera"),
           "redis": ("redis_server", "Redis"),
           "redis_cluster": ("redis_server", "RedisCluster")}


def make(name):
    """Not started yet. It has start(), stop(), url() and a folder."""
    module, server = SERVERS[name]
    return getattr(importlib.import_module(module), server)()
