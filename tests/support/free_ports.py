"""Free ports for servers that a test starts a moment later.

The ports are below Linux's range for outgoing connections (`ip_local_port_range`, from 32768): a port of that range could be taken by a
client before the server starts or restarts.
"""

import errno
import random
import socket

_FIRST, _END = 10_240, 32_768
_DRAWS = random.SystemRandom()  # several processes draw at once, and Hypothesis seeds the other one


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
