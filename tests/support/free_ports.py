"""Free ports for servers that a test is about to start.

The ports are below Linux's range for outgoing connections (`ip_local_port_range`, from 32768), because a client could take a port of that
range before the server starts or restarts.
"""

import errno
import random
import socket

_FIRST, _END = 10_240, 32_768
_DRAWS = (
    random.SystemRandom()
)  # Hypothesis seeds the default generator, so several processes would draw the same ports


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that no server of this host listens on, over TCP or UDP."""
    for port in _DRAWS.sample(range(_FIRST, _END), 1000):
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
