"""Parse the value of a record (rdata in presentation form) into the canonical form."""

import re
from typing import Final

import dns.exception
import dns.ipv6
import dns.name
import dns.rdata
from dns.rdataclass import RdataClass
from dns.rdatatype import RdataType
from dns.rdtypes.ANY.CAA import CAA
from dns.rdtypes.ANY.SSHFP import SSHFP
from dns.rdtypes.ANY.TLSA import TLSA
from dns.rdtypes.ANY.TXT import TXT
from dns.rdtypes.svcbbase import GenericParam, IPv4HintParam, IPv6HintParam, ParamKey, SVCBBase

from sublet.dns.addresses import InvalidAddress, not_public_reason, parse_ipv4, parse_ipv6
from sublet.dns.names import (
    LABEL_OCTETS_MAX,
    NAME_OCTETS_MAX,
    InvalidName,
    parse_host_name,
    parse_label,
    shown,
)

VALUE_CHARACTERS_MAX: Final = 4096
"""The maximum length of a value that is no TXT record, in characters."""
TXT_CHARACTERS_MAX: Final = 16_384
"""The maximum length of a TXT value, in characters: 4,096 octets, each as `\\DDD`."""

_STRING_OCTETS_MAX: Final = 255
"""The maximum length of a character string (RFC 1035, section 3.3)."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_QUOTED: Final = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"[ \t]*')
_ESCAPE: Final = re.compile(rb"\\([0-9]{3}|[^0-9]|)")
_LABEL: Final = re.compile(r"[a-z0-9_-]{1,63}")

_FORMS: Final = {
    "CAA": 'flags, a tag, and a value in quotation marks, such as `0 issue "letsencrypt.org"`',
    "CNAME": "one host name, such as `example.github.io.`",
    "HTTPS": "a priority, a host (`.` for the name itself) and SvcParams, such as `1 . alpn=h2`",
    "MX": "a preference and a mail host, such as `10 mail.example.net.`",
    "SRV": "a priority, a weight, a port and a host, such as `10 5 443 www.example.net.`",
    "SSHFP": "an algorithm, a fingerprint type and the fingerprint in hex, as `ssh-keygen -r` prints them",
    "SVCB": "a priority, a host (`.` for the name itself) and SvcParams, such as `1 . alpn=dot`",
    "TLSA": "usage, selector, matching type and the data in hex, such as `3 1 1` and 64 hex digits",
}
"""What a value consists of, for messages."""
HOST_PLACE: Final = {"CNAME": 0, "HTTPS": 1, "MX": 1, "SRV": 3, "SVCB": 1}
"""The place of the host name among the fields of a value."""
_STRICT_HOSTS: Final = frozenset({"MX", "SRV"})
"""The types whose host may have no underscore: BIND refuses these (its option `check-names`)."""


_DOH_PATH: Final = re.compile(rb"/[\w./~-]*\{\?dns\}", re.ASCII)
"""The paths of DNS over HTTPS (RFC 9461, section 5) that are accepted. If a path doesn't start with `/`, or
lacks the variable `dns`, BIND answers FORMERR to the update, and no longer transfers the zone.
"""
_NOT_SERVED: Final = re.compile(r'[;()]|alpn="[\w./+,-]*[^\w./+,"-]', re.ASCII)
"""What PowerDNS stores in the parameters of HTTPS and SVCB records, and then can't read. It answers SERVFAIL
for the name, and no longer transfers the zone.
"""


class InvalidValue(ValueError):  # noqa: N818 - named like the classes in sublet.errors
    """The text is no value of the type.

    `str()` is a message for users, and `code` is the code of the field.
    """

    def __init__(self, message: str, code: str = "record_invalid") -> None:
        super().__init__(message)
        self.code = code


def parse_value(fqdn: str, type_name: str, text: str, *, accepts_private: bool) -> tuple[str, int]:
    r"""Return a value of one of `RECORD_TYPES` in canonical form, and its size on the wire in octets.

    The canonical form is dnspython's presentation form with absolute names, in lower case. A host that
    contains a dot is absolute, with or without the final dot; `@` stands for `fqdn`. A TXT value that doesn't
    start with a quotation mark is one text, with all its spaces and semicolons. A string of more than 255
    octets is split. `accepts_private` also accepts addresses that are not public. Each type also has the form
    of RFC 3597 (`\# 4 01020304`).

    Not checked: that a host exists, and that the values of an RRset fit each other.

    Raises:
        InvalidValue: empty, too long, a control character, not the form of the type, a host that is not
            written out in full, an unassigned number (TLSA, SSHFP, the flags of CAA), an address that is not
            public (also in HTTPS and SVCB).
    """
    text = text.strip(" \t\r\n")
    limit = TXT_CHARACTERS_MAX if type_name == "TXT" else VALUE_CHARACTERS_MAX
    if not text:
        raise InvalidValue("The value is empty. Give a value, or remove it.")
    if len(text) > limit:
        raise InvalidValue(f"The value has {len(text)} characters. Give at most {limit}.")
    if _CONTROL.search(text):
        raise InvalidValue(f"`{shown(text)}` has a line break or control character. Write it in one line.")
    if text.startswith("\\#"):
        text = _read(type_name, text).to_text()
    if type_name in ("A", "AAAA"):
        return _parse_address(type_name, text, accepts_private=accepts_private)
    if type_name == "TXT":
        return _parse_txt(text)
    rdata = _read(type_name, _with_absolute_host(fqdn, type_name, text))
    _check_numbers(rdata)
    for address in _hints(rdata):
        _check_public(address, accepts_private=accepts_private)
    canonical = rdata.to_text()
    if len(canonical) > VALUE_CHARACTERS_MAX:
        raise InvalidValue(f"`{shown(text)}` is too long. Give at most {VALUE_CHARACTERS_MAX} characters.")
    return canonical, len(rdata.to_wire() or b"")


def check_served(type_name: str, value: str) -> None:
    """Raise `InvalidValue` for a value in canonical form that some name servers refuse, or don't serve as it
    is.

    Not part of `parse_value`, which also reads values that are stored already.
    """
    if type_name in ("HTTPS", "SVCB") and _NOT_SERVED.search(value):
        raise InvalidValue(
            f"`{shown(value)}` has a character that not all name servers can serve. Give no `;`, `(` or `)`, "
            "and in `alpn` only letters, digits and `._/+-`."
        )
    rdata = _read(type_name, value) if type_name in ("HTTPS", "SVCB") else None
    if isinstance(rdata, SVCBBase):
        _check_service(rdata)
    if type_name == "CAA" and value.endswith(' ""'):  # PowerDNS serves an octet 0
        raise InvalidValue('The value of a CAA record is empty. Give `";"` to allow no authority.')


def _check_service(rdata: SVCBBase) -> None:
    """Refuse what BIND doesn't accept in HTTPS and SVCB records: a target that is no host name (its option
    `check-names`; except an alias, RFC 9460, section 2.4.2), and a wrong path of DNS over HTTPS.
    """
    try:
        if rdata.priority > 0 and rdata.target != dns.name.root:
            parse_host_name(rdata.target.to_text())
    except InvalidName as error:
        raise InvalidValue(str(error)) from None
    path = rdata.params.get(ParamKey.DOHPATH)
    if ParamKey.DOHPATH in rdata.params and not (
        isinstance(path, GenericParam) and _DOH_PATH.fullmatch(path.value)
    ):
        raise InvalidValue(
            "The path in `dohpath` starts with `/` and ends with `{?dns}`, with letters, digits and `._~/-` "
            "between them. Give a path such as `dohpath=/dns-query{?dns}`."
        )


def parse_labels(text: str) -> list[str]:
    """Return the labels of a name without the final dot in canonical form. They may have underscores.

    Raises:
        InvalidName: an empty label, a label over 63 octets, a name over 253 octets, a character that is no
            letter, digit, hyphen or underscore, refused by IDNA.
    """
    labels: list[str] = []
    octets = -1
    for label in text.lower().split("."):
        if not label:
            raise InvalidName(
                f"`{shown(text)}` has an empty label. Remove the dot at its start, or one of two in a row."
            )
        if _LABEL.fullmatch(label):
            labels.append(label)
        elif label.isascii() and len(label) <= LABEL_OCTETS_MAX:
            raise InvalidName(
                f"`{shown(text)}` has a character that no name here may have. Use letters, digits, hyphens "
                "and underscores."
            )
        else:
            labels.append(parse_label(label))
        octets += len(labels[-1]) + 1
        if octets > NAME_OCTETS_MAX:  # checked in the loop, because IDNA is slow
            raise InvalidName(f"`{shown(text)}` has more than {NAME_OCTETS_MAX} octets. Give a shorter name.")
    return labels


def _read(type_name: str, text: str) -> dns.rdata.Rdata:
    try:
        return dns.rdata.from_text("IN", type_name, text, relativize=False)
    except (dns.exception.DNSException, ValueError, SyntaxError):
        form = _FORMS.get(type_name)
        advice = f"Give {form}." if form else f"Check the value of the {type_name} record."
        raise InvalidValue(f"`{shown(text)}` can't be read. {advice}") from None


def _parse_address(type_name: str, text: str, *, accepts_private: bool) -> tuple[str, int]:
    try:
        address = parse_ipv4(text) if type_name == "A" else parse_ipv6(text)
    except InvalidAddress as error:
        raise InvalidValue(str(error)) from None
    _check_public(address, accepts_private=accepts_private)
    return (address, 4) if type_name == "A" else (dns.ipv6.canonicalize(address), 16)


def _check_public(address: str, *, accepts_private: bool) -> None:
    reason = None if accepts_private else not_public_reason(address)
    if reason is not None:
        raise InvalidValue(reason, "address_not_public")


def _hints(rdata: dns.rdata.Rdata) -> list[str]:
    """Return the addresses in an HTTPS or SVCB record (RFC 9460, section 7.3)."""
    params = rdata.params.values() if isinstance(rdata, SVCBBase) else ()
    return [
        str(address)
        for param in params
        if isinstance(param, (IPv4HintParam, IPv6HintParam))
        for address in param.addresses
    ]


def _check_numbers(rdata: dns.rdata.Rdata) -> None:
    """Refuse numbers that IANA has not assigned, which clients ignore."""
    if isinstance(rdata, CAA) and rdata.flags not in (0, 128):
        raise InvalidValue(f"The flags of a CAA record are 0, or 128 (critical), not {rdata.flags}.")
    if isinstance(rdata, TLSA) and (rdata.usage > 3 or rdata.selector > 1 or rdata.mtype > 2):
        raise InvalidValue(
            "A TLSA record has a usage from 0 to 3, a selector from 0 to 1, and a matching type from 0 to "
            "2. Check the first three numbers."
        )
    if isinstance(rdata, SSHFP) and (rdata.algorithm not in (1, 2, 3, 4, 6) or rdata.fp_type not in (1, 2)):
        raise InvalidValue(
            "An SSHFP record has the algorithm 1, 2, 3, 4 or 6, and the fingerprint type 1 or 2. Check the "
            "first two numbers."
        )


def _parse_txt(text: str) -> tuple[str, int]:
    """Return a TXT value.

    It is parsed here, because dnspython refuses strings that must be split, and is slow for long ones.
    """
    chunks: list[bytes] = []
    for part in _strings(text):
        octets = _unescape(part)
        places = range(0, len(octets) or 1, _STRING_OCTETS_MAX)
        chunks.extend(octets[at : at + _STRING_OCTETS_MAX] for at in places)
    canonical = " ".join(f'"{"".join(map(_ESCAPED.__getitem__, chunk))}"' for chunk in chunks)
    if len(canonical) > TXT_CHARACTERS_MAX:
        raise InvalidValue(f"`{shown(text)}` is too long. Give at most {TXT_CHARACTERS_MAX // 4} octets.")
    return canonical, sum(1 + len(chunk) for chunk in chunks)


def _strings(text: str) -> list[str]:
    """Return the strings of a TXT value, still with their escapes."""
    if not text.startswith('"'):
        return [text]
    strings, at = [], 0
    while at < len(text):
        found = _QUOTED.match(text, at)
        if found is None:
            raise InvalidValue(
                f"`{shown(text)}` has a quotation mark too few, or text outside of quotation marks. "
                'Put each string into quotation marks, and write a quotation mark inside a string as `\\"`.'
            )
        strings.append(found[1])
        at = found.end()
    return strings


def _unescape(part: str) -> bytes:
    def octet(found: re.Match[bytes]) -> bytes:
        escaped = found[1]
        if len(escaped) == 1:
            return escaped
        if not escaped or int(escaped) > 255:
            raise InvalidValue(
                f"`{shown(part)}` has a backslash without a meaning. Write a backslash as `\\\\`, and an "
                "octet with three digits up to `\\255`."
            )
        return bytes([int(escaped)])

    return _ESCAPE.sub(octet, part.encode()) if "\\" in part else part.encode()


_ESCAPED: Final = [
    TXT(RdataClass.IN, RdataType.TXT, [bytes([octet])]).to_text()[1:-1] for octet in range(256)
]
"""The presentation form of each octet of a TXT record."""


def _with_absolute_host(fqdn: str, type_name: str, text: str) -> str:
    """Return the value with its host name in canonical form, and with the final dot."""
    place = HOST_PLACE.get(type_name)
    if place is None:
        return text
    fields = text.split(None, place + 1)
    if len(fields) > place:
        fields[place] = _absolute_host(fqdn, type_name, fields[place])
    return " ".join(fields)


def _absolute_host(fqdn: str, type_name: str, text: str) -> str:
    if text == "@":
        return fqdn + "."
    if text == ".":
        if type_name == "CNAME":
            raise InvalidValue(
                "A CNAME can't point to `.`, the root of the DNS. Give the full name of a host."
            )
        return text  # no mail, no service, or the owner itself (RFC 7505; RFC 2782; RFC 9460, section 2.5)
    bare = text.removesuffix(".")
    if "." not in text:
        raise InvalidValue(
            f"`{shown(text)}` is a single label. Write the name out in full, such as "
            f"`{shown(text)}.{fqdn}`, or `@` for `{fqdn}` itself."
        )
    try:
        if type_name in _STRICT_HOSTS or bare.rpartition(".")[2].isdigit():
            return parse_host_name(text) + "."
        return ".".join(parse_labels(bare)) + "."
    except InvalidName as error:
        raise InvalidValue(str(error)) from None
