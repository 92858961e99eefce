"""The API's spelling of values that may be written in several ways, for programs that compare what they want with what is there."""

import ipaddress
import re

import idna

from sublet_client.models import Ds, DsRecord

_DIGEST_BY_TYPE = {"2": "[0-9A-Fa-f]{64}", "4": "[0-9A-Fa-f]{96}"}
"""The digests of SHA-256 and SHA-384, the digest types that the registry accepts."""


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
    """Return a DS record as a zone file has it: with single spaces, and its digest in one piece and in lower case.

    Other text is returned as it is. It may be a DNSKEY, whose Base64 is case-sensitive.
    """
    fields = str(record).split()
    digest = "".join(fields[3:])
    is_ds = all(re.fullmatch("[0-9]{1,5}", each) for each in fields[:3])
    if not is_ds or not re.fullmatch(_DIGEST_BY_TYPE.get(" ".join(fields[2:3]), "$^"), digest):
        return str(record)
    return " ".join([*fields[:3], digest.lower()])
