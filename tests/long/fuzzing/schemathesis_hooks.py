"""What schemathesis loads in the fuzz run: whole numbers as in the contract's test, and a look at each answer for canaries."""

import json
import os
from pathlib import Path
from typing import Any

import requests
import schemathesis

from contract.schemathesis_hooks import before_call
from long.fuzzing.http_clients import HANG_SECONDS
from long.fuzzing.slow import SLOW_SECONDS, is_slow

__all__ = ["after_call", "before_call"]

_FORBIDDEN = [
    text.lower().encode() for text in json.loads(Path(os.environ["FUZZ_CANARIES"]).read_text("utf-8"))
]


@schemathesis.hook
def after_call(_context: Any, case: Any, response: Any) -> None:
    """Write down a canary of another account, an answer of 5xx, and one that is slow each time."""
    octets = f"{response.headers}".lower().encode() + response.content.lower()
    found = [text.decode() for text in _FORBIDDEN if text in octets]
    slow = is_slow(response.elapsed, lambda: _ask_again(response.request))
    if found or slow or response.status_code >= 500:
        with Path(os.environ["FUZZ_FINDINGS"]).open("a", encoding="utf-8") as findings:
            late = f", later than {SLOW_SECONDS:g} s each time," if slow else ""
            findings.write(f"schemathesis: {response.status_code}{late} and {found} to {case!r}\n")


def _ask_again(request: Any) -> None:
    with requests.Session() as session:
        session.send(request, timeout=HANG_SECONDS)
