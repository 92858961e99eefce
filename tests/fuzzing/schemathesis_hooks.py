"""What schemathesis loads in the fuzz run: whole numbers as in the contract's test, and a look at each answer for canaries."""

import json
import os
from pathlib import Path
from typing import Any

import schemathesis

from contract.schemathesis_hooks import before_call

__all__ = ["after_call", "before_call"]

_FORBIDDEN = [
    text.lower().encode() for text in json.loads(Path(os.environ["FUZZ_CANARIES"]).read_text("utf-8"))
]


@schemathesis.hook
def after_call(_context: Any, case: Any, response: Any) -> None:
    """Write down a canary of another account, and an answer of 5xx."""
    octets = f"{response.headers}".lower().encode() + response.content.lower()
    found = [text.decode() for text in _FORBIDDEN if text in octets]
    if found or response.status_code >= 500:
        with Path(os.environ["FUZZ_FINDINGS"]).open("a", encoding="utf-8") as findings:
            findings.write(f"schemathesis: {response.status_code} and {found} to {case!r}\n")
