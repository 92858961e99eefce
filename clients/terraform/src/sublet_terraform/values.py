"""Types of attributes whose values may be spelled in several ways: how they are compared, and which values
are refused.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from msgpack import ExtType
from tf.schema import Attribute
from tf.types import Map, Number, Set, String, Unknown
from tf.utils import Diagnostics

from sublet_client.spelling import parse_address, parse_host, parse_price

_ID = re.compile(r"[1-9][0-9]{0,18}")

Parse = Callable[[str], object]
Path = tuple[str | tuple[str], ...]
"""The steps from an attribute to a wrong value: none, or the key of a map."""


class Spelled:
    """A type whose values have several spellings. Subclasses are types of `tf`."""

    def canonical(self, value: Any) -> Any:
        """Return a value that is equal for all spellings of the same value.

        A text that can't be parsed stands for itself.
        """
        raise NotImplementedError

    def faults(self, value: Any) -> Iterator[tuple[Path, str]]:
        """Yield each text that the API would refuse, with a sentence.

        Values that are not known yet are skipped.
        """
        raise NotImplementedError


class Text(Spelled, String):
    """A text."""

    def __init__(self, parse: Parse) -> None:
        self.parse = parse

    def canonical(self, value: Any) -> Any:
        """Return the canonical form."""
        return _canonical(value, self.parse)

    def faults(self, value: Any) -> Iterator[tuple[Path, str]]:
        """Yield the fault of the text, if it has one."""
        yield from (((), each) for each in _faults([] if value is None else [value], self.parse))


class Texts(Spelled, Set):
    """A set of texts; null is the empty set."""

    def __init__(self, parse: Parse) -> None:
        super().__init__(String())
        self.parse = parse

    def canonical(self, value: Any) -> Any:
        """Return the set of canonical forms."""
        return value if value is Unknown else {_canonical(each, self.parse) for each in value or ()}

    def faults(self, value: Any) -> Iterator[tuple[Path, str]]:
        """Yield the faults of the members."""
        yield from (((), each) for each in _faults([] if value is Unknown else value or (), self.parse))


class Glue(Spelled, Map):
    """Addresses by host; null is no glue, and a host without addresses is left out."""

    def __init__(self) -> None:
        super().__init__(Set(String()))

    def canonical(self, value: Any) -> Any:
        """Return the set of pairs of a host and an address."""
        if value is Unknown:
            return value
        return {
            (_canonical(host, parse_host), _canonical(each, parse_address))
            for host, addresses in (value or {}).items()
            for each in (addresses if isinstance(addresses, list) else [addresses])
        }

    def faults(self, value: Any) -> Iterator[tuple[Path, str]]:
        """Yield the faults of the hosts and addresses, with the host as the path."""
        for host, addresses in ({} if value is Unknown else value or {}).items():
            yield from ((((host,),), each) for each in _faults([host], parse_host))
            texts = [] if addresses is Unknown else [None] if addresses is None else addresses
            yield from ((((host,),), each) for each in _faults(texts, parse_address))


class Credits(Spelled, Number):
    """A whole number of credits."""

    def canonical(self, value: Any) -> Any:
        """Return the number."""
        return value

    def faults(self, value: Any) -> Iterator[tuple[Path, str]]:
        """Yield the fault of the number, if it has one."""
        texts = [] if value is None or value is Unknown else [str(value)]
        yield from (((), each) for each in _faults(texts, parse_price))


def without_refinements(value: Any) -> Any:
    """Return a configuration with `Unknown` for each unknown value of which Terraform knows something, such
    as its prefix.

    `tf` leaves these as they are encoded.
    """
    if isinstance(value, ExtType):
        return Unknown
    if isinstance(value, dict):
        return {name: without_refinements(each) for name, each in value.items()}
    return [without_refinements(each) for each in value] if isinstance(value, list) else value


def report_faults(
    diagnostics: Diagnostics, attributes: Iterable[Attribute], config: Mapping[str, Any]
) -> None:
    """Report each value of a configuration that the API would refuse, at its attribute."""
    for each in attributes:
        if isinstance(each.type, Spelled):
            for path, sentence in each.type.faults(config[each.name]):
                diagnostics.add_error(sentence, path=[each.name, *path])


def parse_id(text: str) -> str:
    """Return the id of an object of the API.

    Raises:
        ValueError: it is no decimal number without leading zeros.
    """
    if not _ID.fullmatch(text):
        raise ValueError(f"`{text}` is not an id. Give the number that the registry shows.")
    return text


def instant_text(at: datetime) -> str:
    """Return an instant as the API writes it."""
    return at.isoformat().replace("+00:00", "Z")


def _canonical(value: Any, parse: Parse) -> Any:
    try:
        return parse(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _faults(values: Any, parse: Parse) -> Iterator[str]:
    for each in values:
        if each is None:
            yield "A value is null. Give a text, or leave it out."
        elif each is not Unknown:
            try:
                parse(each)
            except ValueError as error:
                yield str(error)
