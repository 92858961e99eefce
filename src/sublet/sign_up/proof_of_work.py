"""Proof of work for sign-ups: challenges that a browser solves in about a second (ALTCHA, version 2; no SQL).

Proof of work makes mass sign-ups expensive, but doesn't prove that the client is a person.
"""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import altcha
from msgspec import Struct

ALGORITHM = "PBKDF2/SHA-256"
COST = 5000
"""The rounds of PBKDF2 in one attempt, about 2 ms. With a prefix of one byte, a client needs 256 attempts on
average.
"""
VALID_FOR = timedelta(minutes=20)
PAYLOAD_CHARACTERS_MAX = 4000


class SolvedChallenge(Struct, frozen=True):
    """A solved challenge: its expiry, and its signature, by which the second use is detected."""

    signature: str
    expires_at: datetime


def new_challenge(key: str, now: datetime) -> dict[str, Any]:
    """Return a new signed challenge in the format of the ALTCHA widget."""
    challenge = altcha.create_challenge(ALGORITHM, COST, expires_at=now + VALID_FOR, hmac_secret=key)
    return challenge.to_dict()


def check_solution(key: str, payload: str) -> SolvedChallenge | None:
    """Return the solved challenge in a payload (base64 of JSON), or None if the challenge isn't from this
    service, isn't solved or has expired.

    Not checked: that the challenge is used for the first time.
    """
    if not altcha.verify_solution(payload, key).verified:
        return None
    challenge = json.loads(base64.b64decode(payload))["challenge"]
    expires_at = datetime.fromtimestamp(challenge["parameters"]["expiresAt"], UTC)
    return SolvedChallenge(challenge["signature"], expires_at)
