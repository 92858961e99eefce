"""The nameservers of a request: the list `nameservers`, or the keys `ns1` to `ns4` (spec, part 4).

The keys are a form of HTTP alone. The verbs take one list, so their errors are given back under the keys that the client sent.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from msgspec import UNSET

from sublet.errors import FieldError, ValidationFailed, validation_failed
from sublet.http.bodies import NameserversBody, RegisterBody

_KEYS = ("ns1", "ns2", "ns3", "ns4")
_IN_LIST = re.compile(r"nameservers(?:\[(?P<index>[0-9]+)\])?")


def sent_nameservers(body: RegisterBody | NameserversBody) -> tuple[str, ...] | None:
    """Return the nameservers from `nameservers` or from `ns1` to `ns4`; None if neither was sent.

    The keys stand for the whole list: a key that is left out or null is no nameserver any more. An empty text counts as sent, so the
    verb refuses it as a host name.

    Raises, in this order:
        ValidationFailed: both forms at once (`value_invalid`).
        ValidationFailed: a key is missing below one that was sent (`required`, for each missing key).
    """
    by_key = {key: getattr(body, key) for key in _KEYS}
    hosts = _hosts(by_key)
    # In a registration null means "not sent"; in a change it clears the list.
    has_list = isinstance(body.nameservers, list) or (
        isinstance(body, NameserversBody) and body.nameservers is None
    )
    if hosts and has_list:
        sentence = "Both `nameservers` and `ns1` to `ns4` are given. Send one of the two forms."
        raise validation_failed([FieldError(next(iter(hosts)), "value_invalid", sentence)])
    if isinstance(body.nameservers, list):
        return tuple(body.nameservers)
    if missing := _missing_keys(hosts):
        raise validation_failed(missing)
    if isinstance(body, RegisterBody):
        return tuple(hosts.values()) or None
    sent = body.nameservers is not UNSET or any(host is not UNSET for host in by_key.values())
    return tuple(hosts.values()) if sent else None


@contextmanager
def named_as_sent(body: RegisterBody | NameserversBody) -> Iterator[None]:
    """Give the errors of nameservers that were sent as `ns1` to `ns4` under these keys, those of the whole list under `ns1`."""
    try:
        yield
    except ValidationFailed as refusal:
        if not _hosts({key: getattr(body, key) for key in _KEYS}):
            raise
        raise validation_failed([_renamed(error) for error in refusal.errors]) from refusal


def _hosts(by_key: dict[str, object]) -> dict[str, str]:
    return {key: host for key, host in by_key.items() if isinstance(host, str)}


def _missing_keys(hosts: dict[str, str]) -> list[FieldError]:
    if not hosts:
        return []
    last = max(hosts)
    sentence = f"`{last}` is given and this is not. Send the nameservers as `ns1`, `ns2` … without a gap."
    return [FieldError(key, "required", sentence) for key in _KEYS if key < last and key not in hosts]


def _renamed(error: FieldError) -> FieldError:
    found = _IN_LIST.fullmatch(error.field)
    return error if found is None else replace(error, field=_KEYS[int(found["index"] or 0)])
