"""Run a test in a network namespace (Linux), where loopback has public addresses, as glue must have, and port 53 is free.

The test runs again in another pytest process inside the namespace.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import pytest

from support.name_servers import find_program

_INSIDE = "TESTS_IN_OWN_NETWORK"
_WITHOUT = [
    word
    for each in ("cacheprovider", "schemathesis", "hypothesispytest", "xdist", "pytest_cov")
    for word in ("-p", f"no:{each}")
]
"""Plugins that would only take their time."""
_SET_UP = """\
ip link set lo up
for address in $ADDRESSES; do ip address add "$address" dev lo; done
exec "$@"
"""


def runs_outside(request: pytest.FixtureRequest, addresses: Sequence[str], seconds: float = 120) -> bool:
    """Run the test that asks in a network that has these addresses, unless it is there already; tell which of the two.

    A test begins with `if runs_outside(…): return`. It takes no fixtures that start something: they would be started twice.
    """
    if os.environ.get(_INSIDE):
        return False
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {_INSIDE: "yes", "ADDRESSES": " ".join(addresses)}
    environment["PATH"] = f"{environment.get('PATH', '')}:/usr/sbin:/sbin"
    # Root needs no user namespace, which would lack other users, such as PostgreSQL's.
    users = [] if os.getuid() == 0 else ["--map-root-user"]
    inside = ["unshare", *users, "--net", "sh", "-euc", _SET_UP, "sh"]
    if find_program("unshare") is None:
        pytest.skip("no unshare here")
    tried = subprocess.run([*inside, "true"], env=environment, capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"nobody can have a network of one's own here: {tried.stderr.strip()}")
    # A short path: a socket's path has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="sublet-") as folder:
        pytest_again = [sys.executable, "-m", "pytest", "-q", *_WITHOUT, f"--basetemp={folder}/t"]
        done = subprocess.run(
            [*inside, *pytest_again, request.node.nodeid],
            cwd=request.config.rootpath,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
    assert " passed" in done.stdout, done.stdout
    return True
