"""Every server that a store can be tested on, by name."""
import importlib

SERVERS = {"postgres": ("postgres", "Postgres"),
           "pgbouncer": ("pgbouncer", "PgBouncer"),
           "mariadb": ("mariadb", "MariaDb"),
           "mariadb_plain": ("mariadb", "MariaDbPlain"),
           "galera": ("galera", "Galera"),
           "redis": ("redis_server", "Redis"),
           "redis_cluster": ("redis_server", "RedisCluster"),
           "redis_cluster_chaos": ("redis_server", "RedisClusterChaos"),
           "redis_sentinel": ("redis_server", "RedisSentinel"),
           "redis_tls": ("redis_server", "RedisTls")}


def make(name):
    """Not started yet. It has start(), stop(), url() and a folder."""
    module, server = SERVERS[name]
    return getattr(importlib.import_module(module), server)()
