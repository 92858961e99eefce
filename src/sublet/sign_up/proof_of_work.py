"""Proof of work for signing up: challenges that a browser solves in about a second (ALTCHA, version 2; no SQL).

A solution shows that a sign-up cost some work. It doesn't show that a person sent it.
"""

import base64
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import altcha

ALGORITHM = "PBKDF2/SHA-256"
COST = 5000
"""Rounds of one attempt: about 2 ms. With one byte of prefix a client needs 256 attempts on average."""
VALID_FOR = timedelta(minutes=20)
PAYLOAD_CHARACTERS_MAX = 4000


@dataclass(frozen=True, slots=True)
class Solved:
    """A solved challenge: its signature, by which it is used once, and when it expires."""

    signature: str
    expires_at: datetime


def new_challenge(key: str, now: datetime) -> dict[str, Any]:
    """Return a signed challenge as the ALTCHA widget reads it."""
    challenge = altcha.create_challenge(ALGORITHM, COST, expires_at=now + VALID_FOR, hmac_secret=key)
    return challenge.to_dict()


def check_solution(key: str, payload: str) -> Solved | None:
    """Return the solved challenge in a payload, the base64 of JSON; None if it isn't one of ours, is wrong or has expired.

    Not checked: whether it was used before.
    """
    if not altcha.verify_solution(payload, key).verified:
        return None
    challenge = json.loads(base64.b64decode(payload))["challenge"]
    expires_at = datetime.fromtimestamp(challenge["parameters"]["expiresAt"], UTC)
    return Solved(challenge["signature"], expires_at)
