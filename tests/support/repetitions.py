"""Choose between a share of a test's repetitions (`make test`) and all of them (`make test-whole`,
TESTS_WHOLE=yes).
"""

import os
from typing import TypeVar

T = TypeVar("T")
WHOLE = os.environ.get("TESTS_WHOLE", "no") == "yes"


def share(part: T, *, whole: T) -> T:
    """Return `part` in `make test`, `whole` in `make test-whole`."""
    return whole if WHOLE else part
