"""Ports for servers that are started a moment later: nobody listens there, and no connection of anybody's may come to be there meanwhile.

The system gives connections ports of a range of its own (`ip_local_port_range`, from 32768 on Linux). Of that range a port that is free now may
be some client's when the server starts, or starts anew; and who asks a port of it where nobody listens may, rarely, get connected with himself.
"""

import errno
import random
import socket

_FIRST, _END = 10_240, 32_768
_DRAWS = random.SystemRandom()  # several processes draw at once, and Hypothesis seeds the other one


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port of an address of this host at which nobody listens, over TCP or UDP."""
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
