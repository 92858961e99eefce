"""Run a test in a network namespace (Linux), where loopback has public addresses for glue, and port 53 is
free.

The test runs again in a second pytest process inside the namespace.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import pytest

ENOUGH_SECONDS = 900.0
"""Enough for a whole test, also on a busy machine: its own waits end earlier."""
_INSIDE = "TESTS_IN_OWN_NETWORK"
_WITHOUT = [
    word
    for each in ("cacheprovider", "schemathesis", "hypothesispytest", "xdist", "pytest_cov")
    for word in ("-p", f"no:{each}")
]
"""Plugins that the inner pytest process doesn't need."""
_SET_UP = """\
ip link set lo up
for address in $ADDRESSES; do ip address add "$address" dev lo; done
exec "$@"
"""


def runs_outside(request: pytest.FixtureRequest, addresses: Sequence[str]) -> bool:
    """Run the calling test in a network with these addresses, and return True; return False inside of that
    network.

    A test begins with `if runs_outside(…): return`. Its fixtures must start nothing, because they would start
    twice.
    """
    if os.environ.get(_INSIDE):
        return False
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {_INSIDE: "yes", "ADDRESSES": " ".join(addresses)}
    environment["PATH"] = f"{environment.get('PATH', '')}:/usr/sbin:/sbin"
    # Root needs no user namespace. In one, other users such as PostgreSQL's would be missing.
    users = [] if os.getuid() == 0 else ["--map-root-user"]
    inside = ["unshare", *users, "--net", "sh", "-euc", _SET_UP, "sh"]
    tried = subprocess.run([*inside, "true"], env=environment, capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"network namespaces are not available here:  {tried.stderr.strip()}")
    # A short path: a socket's path has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="sublet-") as folder:
        pytest_again = [sys.executable, "-m", "pytest", "-q", *_WITHOUT, f"--basetemp={folder}/t"]
        done = subprocess.run(
            [*inside, *pytest_again, request.node.nodeid],
            cwd=request.config.rootpath,
            env=environment,
            capture_output=True,
            text=True,
            timeout=ENOUGH_SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
    assert " passed" in done.stdout, done.stdout
    return True
