"""Types of attributes whose values may be spelled in several ways. A state keeps the spelling of the configuration while both mean the same."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from tf.types import Map, Set, String, Unknown

from sublet_client.spelling import address, hostname

Normal = Callable[[str], str]


def instant(text: str) -> str:
    """Return an instant (RFC 3339) as a number of seconds, for comparisons."""
    try:
        return str(datetime.fromisoformat(text).timestamp())
    except ValueError:
        return text


class Text(String):
    """A text with several spellings."""

    def __init__(self, normal: Normal) -> None:
        self.normal = normal

    def semantically_equal(self, a_decoded: Any, b_decoded: Any) -> bool:
        """True if both are written the same way by the API."""
        return bool(_normal(a_decoded, self.normal) == _normal(b_decoded, self.normal))


class Texts(Set):
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


def _normal(value: Any, normal: Normal) -> Any:
    return normal(value) if isinstance(value, str) else value


def _members(value: Any, normal: Normal) -> Any:
    return value if value is Unknown else sorted(repr(_normal(each, normal)) for each in value or ())


def _addresses(value: Any) -> Any:
    if value is Unknown:
        return value
    given: Mapping[str, Any] = value or {}
    return {hostname(host): _members(addresses, address) for host, addresses in given.items()}
