"""How many repetitions `make test` runs: a share of those of `make test-whole` (TESTS_WHOLE=yes)."""

import os
from typing import TypeVar

T = TypeVar("T")
WHOLE = os.environ.get("TESTS_WHOLE", "no") == "yes"


def share(part: T, *, whole: T) -> T:
    """Return `part`, or `whole` in `make test-whole`."""
    return whole if WHOLE else part
