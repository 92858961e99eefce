"""Identifiers that users see: ids, ticket numbers, request ids, list cursors."""

import base64
import binascii
import os
import re
import zlib
from datetime import datetime, timedelta

from msgspec import Struct

from sublet.errors import InvalidCursor

_TICKET_NUMBER = re.compile(r"T-([0-9]{6,18})", re.IGNORECASE)
MAX_ID = 2**63 - 1


def ticket_number(ticket_id: int) -> str:
    """Return the number of a ticket: `T-000123` for 123."""
    return f"T-{ticket_id:06d}"


def parse_ticket_number(text: str) -> int | None:
    """Return a ticket's id from its number, or None if the text is not a ticket number.

    A ticket has one number: `T-0000123` is none.
    """
    match = _TICKET_NUMBER.fullmatch(text)
    found = int(match[1]) if match else 0
    return found if ticket_number(found) == text.upper() else None


def parse_id(text: str) -> int | None:
    """Return the id in a path or argument; None unless it is decimal, without leading zeros and at most
    `MAX_ID`.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 19) or text.startswith("0"):
        return None
    value = int(text)
    return value if value <= MAX_ID else None


def new_request_id() -> str:
    """Return a new request id: 128 random bits in hex."""
    while True:
        try:
            return _REQUEST_IDS.pop()
        except IndexError:  # Draw 256 ids with one system call, because the call takes most of the time.
            drawn = os.urandom(16 * 256).hex()
            _REQUEST_IDS.extend(drawn[first : first + 32] for first in range(0, len(drawn), 32))


_REQUEST_IDS: list[str] = []


class Position(Struct, frozen=True):
    """The end of a page: the instant and id of its last row. Lists run from newest to oldest."""

    at: datetime
    id: int


def encode_cursor(list_name: str, position: Position) -> str:
    """Return the opaque cursor of the page after this position, for this list only."""
    body = f"{list_name}:{position.at.isoformat()}:{position.id}".encode()
    return base64.urlsafe_b64encode(zlib.crc32(body).to_bytes(4, "big") + body).decode().rstrip("=")


def decode_cursor(list_name: str, text: str) -> Position:
    """Return the position in a cursor.

    Raises:
        InvalidCursor: the text is not a cursor of this list.
    """
    refusal = InvalidCursor("This `cursor` is not of this list. Start again without it.")
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise refusal from None
    body = raw[4:]
    if len(raw) < 8 or int.from_bytes(raw[:4], "big") != zlib.crc32(body):
        raise refusal
    try:
        name, rest = body.decode().split(":", 1)
        instant, number = rest.rsplit(":", 1)
        position = Position(datetime.fromisoformat(instant), int(number))
    except ValueError:
        raise refusal from None
    # Cursors are in UTC. Other offsets are refused, because converting them fails near the first and last
    # year.
    if name != list_name or position.at.utcoffset() != timedelta(0) or not 0 <= position.id <= MAX_ID:
        raise refusal
    return position
