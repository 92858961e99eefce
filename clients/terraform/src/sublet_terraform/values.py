"""Types of attributes whose values may be spelled in several ways. A state keeps the spelling of the configuration while both mean the same."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from tf.types import Map, Set, String, Unknown

from sublet_client.spelling import parse_address, parse_host

Normal = Callable[[str], str]
DIGEST_DIGITS = {"2": 64, "4": 96}
"""The digest types that the registry takes (SHA-256, SHA-384), with the length of their digests."""


def instant(text: str) -> str:
    """Return an instant (RFC 3339) as a number of seconds, for comparisons."""
    try:
        return str(datetime.fromisoformat(text).timestamp())
    except ValueError:
        return text


def ds_record(text: str) -> str:
    """Return a DS record with its digest in one piece and in lower case; other text as it is."""
    fields = text.split()
    digest = "".join(fields[3:])
    digits = DIGEST_DIGITS.get(" ".join(fields[2:3]), 0)
    is_ds = all(re.fullmatch("[0-9]{1,5}", each) for each in fields[:3])
    if not is_ds or len(digest) != digits or not re.fullmatch("[0-9A-Fa-f]+", digest):
        return text
    return " ".join([*fields[:3], digest.lower()])


def ds_fault(text: str) -> str | None:
    """Return what is wrong with the form of a DS record, and what to do; None if it is one. Not checked: the algorithm."""
    fields = ds_record(text).split()
    if len(fields) != 4 or not all(re.fullmatch("[0-9]{1,5}", each) for each in fields[:3]):
        return "write the key tag, the algorithm, the digest type and the digest, as in `2371 13 2 1f98…`."
    if int(fields[0]) > 65535:
        return "the key tag is at most 65535. Copy it from the zone again."
    digits = DIGEST_DIGITS.get(fields[2])
    if digits is None:
        return f"the digest type {fields[2]} is not taken. Use 2 (SHA-256) or 4 (SHA-384)."
    if not re.fullmatch(f"[0-9a-f]{{{digits}}}", fields[3]):
        return f"a digest of type {fields[2]} has {digits} hexadecimal digits. Copy it from the zone again."
    return None


class Spelled:
    """A type whose values have several spellings. `normal` returns the canonical form of a text, or raises ValueError."""

    normal: Normal

    def faults(self, value: Any) -> Iterator[str]:
        """Yield a sentence for each text in a value that has no canonical form."""
        for each in _texts(value):
            try:
                self.normal(each)
            except ValueError as error:
                yield str(error)


class Text(Spelled, String):
    """A text with several spellings."""

    def __init__(self, normal: Normal) -> None:
        self.normal = normal

    def semantically_equal(self, a_decoded: Any, b_decoded: Any) -> bool:
        """True if both are written the same way by the API."""
        return bool(_normal(a_decoded, self.normal) == _normal(b_decoded, self.normal))


class Texts(Spelled, Set):
    """A set of texts with several spellings; null is the empty set."""

    def __init__(self, normal: Normal = str) -> None:
        super().__init__(String())
        self.normal = normal

    def semantically_equal(self, a_decoded: Any, b_decoded: Any) -> bool:
        """True if both have the same members."""
        return bool(_members(a_decoded, self.normal) == _members(b_decoded, self.normal))


class Glue(Map):
    """Addresses by host; null is no glue."""

    def __init__(self) -> None:
        super().__init__(Set(String()))

    def semantically_equal(self, a_decoded: Any, b_decoded: Any) -> bool:
        """True if both have the same addresses for the same hosts."""
        return bool(_addresses(a_decoded) == _addresses(b_decoded))


def _texts(value: Any) -> list[str]:
    """Return the texts in a value that are known."""
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]


def _normal(value: Any, normal: Normal) -> Any:
    """Return a value in its canonical form; as it is if it has none."""
    try:
        return normal(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _members(value: Any, normal: Normal) -> Any:
    return value if value is Unknown else sorted(repr(_normal(each, normal)) for each in value or ())


def _addresses(value: Any) -> Any:
    if value is Unknown:
        return value
    given: Mapping[str, Any] = value or {}
    return {
        _normal(host, parse_host): _members(addresses, parse_address) for host, addresses in given.items()
    }
