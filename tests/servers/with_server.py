"""with_server.py NAME COMMAND…: starts a server, runs the command with ONCE_TEST_STORE and ONCE_E2E_STORE (its URL) and
ONCE_TEST_CLOCK (the file with its clock's skew) in the environment, and what the server adds to it, and ends the server. NAME is a key of SERVERS in catalog.py.
"""
import os
import subprocess
import sys

import catalog


def main():
    name, *command = sys.argv[1:]
    server = catalog.make(name)
    try:
        server.start()
        environment = {**os.environ, "ONCE_TEST_STORE": server.url(), "ONCE_E2E_STORE": server.url(),
                       "ONCE_TEST_CLOCK": str(server.folder.clock), **getattr(server, "environment", dict)()}
        return subprocess.run(command, env=environment, check=False).returncode
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
