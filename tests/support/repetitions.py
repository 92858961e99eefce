"""How much `make test` does of what can be repeated: a share. `make test-whole` does all of it (TESTS_WHOLE=yes), as `make soak` does more."""

import os
from typing import TypeVar

T = TypeVar("T")
WHOLE = os.environ.get("TESTS_WHOLE", "no") == "yes"


def share(part: T, *, whole: T) -> T:
    """Return a part, or the whole where that was asked for."""
    return whole if WHOLE else part
