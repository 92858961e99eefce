"""The API's spelling of values that may be written in several ways, for programs that compare what they want with what is there."""

import ipaddress

import idna

from sublet_client.models import Ds, DsRecord


def hostname(text: str) -> str:
    """Return a name as the API writes it: A-labels in lower case, without the final dot. Returned in lower case if it isn't a name."""
    name = text.strip().rstrip(".").lower()
    try:
        return idna.encode(name, uts46=True).decode()
    except idna.IDNAError:
        return name


def address(text: str) -> str:
    """Return an IP address in its shortest form; the text itself if it isn't one."""
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        return text


def ds_record(record: str | Ds | DsRecord) -> str:
    """Return a DS record as a zone file has it: with single spaces, and its digest in one piece and in lower case."""
    fields = str(record).split()
    return " ".join([*fields[:3], "".join(fields[3:]).lower()])
