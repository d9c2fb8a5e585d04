#!/usr/bin/python3
"""CPU per request of the Node middleware beside that of @node-idempotency/core, on one Redis and in one run.

    ONCE_LIBRARY=build/release/bindings/c/libonce.so bench/node/bench.py [REQUESTS]

Every number is CPU time of the service's process, with all threads; what the same service needs without keys is subtracted.
"""
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "servers"))

import catalog  # noqa: E402
import node_package  # noqa: E402
import npm  # noqa: E402

VARIANTS = ("none", "once", "node-idempotency")
ROUNDS = 3


def measure(folder, variant, url, count, name):
    """(first requests, replays): microseconds of CPU each."""
    server = subprocess.Popen(["node", "server.mjs", variant, url], cwd=folder, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "ONCE_SECRET": "0123456789abcdef0123456789abcdef"})
    try:
        port = server.stdout.readline().strip()

        def load(prefix, number):
            command = ["node", "load.mjs", port, str(number), prefix]
            return float(subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout)

        load(f"warm-{name}", count // 5)
        return load(name, count), load(name, count)
    finally:
        server.kill()
        server.wait()


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    folder = npm.install(HERE, node_package.folder() / "bench", ["server.mjs", "load.mjs"])
    node_package.unpack(folder)
    redis = catalog.make("redis")
    redis.start()
    try:
        rounds = [{variant: measure(folder, variant, redis.url(), count, f"{variant}-{number}") for variant in VARIANTS}
                  for number in range(ROUNDS)]
    finally:
        redis.stop()
    middle = {variant: [statistics.median(each[variant][kind] for each in rounds) for kind in (0, 1)] for variant in VARIANTS}
    print(f"{'µs of CPU per request':24}{'first':>10}{'replay':>10}")
    for variant in VARIANTS:
        print(f"{variant:24}{middle[variant][0]:10.1f}{middle[variant][1]:10.1f}")
    added = {variant: [middle[variant][kind] - middle["none"][kind] for kind in (0, 1)] for variant in VARIANTS[1:]}
    print("added by the middleware")
    for variant in added:
        print(f"{variant:24}{added[variant][0]:10.1f}{added[variant][1]:10.1f}")
    print(f"{'ratio':24}" + "".join(f"{added['node-idempotency'][kind] / added['once'][kind]:10.1f}" for kind in (0, 1)))


if __name__ == "__main__":
    main()
