"""The two protocols with systemd: a passed socket (sd_listen_fds(3)) and readiness (sd_notify(3)).

Other service managers that use the same environment variables work too.
"""

import contextlib
import os
import socket

from sublet.errors import Unavailable

FIRST_FD = 3


def passed_socket() -> socket.socket | None:
    """Return the listening socket that was passed to this process, or None. A second call returns None.

    Raises:
        Unavailable: more than one socket was passed, or it isn't a listening TCP socket.
    """
    passed_to, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if passed_to != str(os.getpid()) or not count.isdigit() or int(count) == 0:
        return None
    if int(count) > 1:
        raise Unavailable(
            f"{count} sockets were passed, but the API takes one. Give one ListenStream= in the unit of "
            "the socket."
        )
    os.set_inheritable(FIRST_FD, False)
    try:
        passed = socket.socket(fileno=FIRST_FD)
        is_listening = bool(passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError as error:
        raise Unavailable(
            f"The socket that was passed can't be used: {error.strerror}. Check the unit of the socket."
        ) from error
    if not is_listening or passed.family not in (socket.AF_INET, socket.AF_INET6):
        raise Unavailable(
            "The socket that was passed doesn't listen for TCP. Give ListenStream=host:port in the unit of "
            "the socket."
        )
    passed.setblocking(False)
    return passed


def notify(state: str) -> None:
    """Send a state to systemd: `READY=1` or `STOPPING=1`. Does nothing without systemd."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return
    address = f"\0{path[1:]}" if path.startswith("@") else path
    with (
        contextlib.suppress(OSError),  # best effort
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender,
    ):
        sender.sendto(state.encode(), address)
