"""Free ports for servers that a test is about to start.

The ports are below Linux's range for outgoing connections (`ip_local_port_range`, from 32768), because a
client could take a port of that range before the server starts or restarts. For the same reason each worker
of pytest has ports of its own, and gives none out twice until all were given out.
"""

import errno
import itertools
import os
import random
import socket

_FIRST, _END = 10_240, 32_768


def _ports() -> list[int]:
    """Return this worker's ports, from a random one on: processes that a test starts use the same ports."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    own = range(_FIRST + worker, _END, workers)
    # Hypothesis seeds the default generator, so that several processes would begin with the same port.
    first = random.SystemRandom().randrange(len(own))
    return [*own[first:], *own[:first]]


_NEXT = itertools.cycle(_ports())


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that no server of this host listens on, over TCP or UDP."""
    for port in itertools.islice(_NEXT, 1000):
        with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagram:
            try:
                stream.bind((host, port))
                datagram.bind((host, port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                return port
    raise AssertionError(f"no port of {host} is free")


def free_address(host: str = "127.0.0.1") -> tuple[str, int]:
    """Return a loopback address with a port that is free for TCP and UDP."""
    return host, free_port(host)
