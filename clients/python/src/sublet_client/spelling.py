"""Parse the values that people may write in several ways, into the API's canonical form.

Programs that compare what they want with what is there compare canonical forms. Each function accepts exactly
the texts that the API accepts for this kind of value, and raises ValueError for all others; the message says
what is wrong and what to do. No function changes a text that it can't parse. Not checked: rules that need the
registry, such as whether a name exists or an address is public.
"""

import base64
import hashlib
import ipaddress
import re
import unicodedata
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated

import idna
import msgspec

from sublet_client.models import Dnskey, Ds, DsRecord, GlueEntry

SCOPES = (
    "account:read",
    "subdomains:read",
    "subdomains:write",
    "records:write",
    "credits:spend",
    "tickets:read",
    "tickets:write",
    "tokens:write",
    "organization:write",
)
"""All scopes of tokens."""
CREDITS_MAX = 10**12
RECORD_TYPES = ("A", "AAAA", "CAA", "CNAME", "HTTPS", "MX", "SRV", "SSHFP", "SVCB", "TLSA", "TXT")
"""All types of records that names may have."""

_TEXT_CHARACTERS_MAX = 1000
_DS_CHARACTERS_MAX = 4000
_LABEL_OCTETS_MAX = 63
_NAME_OCTETS_MAX = 253
_MAIL_CHARACTERS_MAX = 254
_LOCAL_PART_CHARACTERS_MAX = 64
_WILDCARD = "*."

_NAMED_MAX = 8
_NO_NAME_CHARACTER = re.compile(r"[^-.0-9A-Za-z\x80-\ud7ff\ue000-\U0010ffff]")
_NO_LOCAL_PART_CHARACTER = re.compile(r'[\s"(),:;<>\[\\\]]|=\?')
_IPV4 = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")
_IPV6 = re.compile(r"[0-9A-Fa-f:.]{2,45}")
_INTEGER = re.compile(r"-?0|[1-9][0-9]{0,12}")
_INSTANT = Annotated[datetime, msgspec.Meta(tz=True)]

_COMMENT = re.compile(r";[^\n]*")
_NUMBER = re.compile(r"[0-9]{1,10}")
_TTL = re.compile(r"[0-9]{1,10}|([0-9]{1,10}[WDHMSwdhms])+")
_HEX = re.compile(r"[0-9A-Fa-f]+")
_DIGEST_DIGITS = {2: 64, 4: 96}
_ALGORITHMS = {
    8: "RSASHA256",
    10: "RSASHA512",
    13: "ECDSAP256SHA256",
    14: "ECDSAP384SHA384",
    15: "ED25519",
    16: "ED448",
}
_ALGORITHM_NUMBERS = {name: str(number) for number, name in _ALGORITHMS.items()}
_KEY_OCTETS = {13: 64, 14: 96, 15: 32, 16: 57}
_ZONE_FLAG, _REVOKE_FLAG, _SEP_FLAG = 0x0100, 0x0080, 0x0001

_RECORD_CHARACTERS_MAX, _TXT_CHARACTERS_MAX = 4096, 16_384
_STRING_OCTETS_MAX = 255
_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_RECORD_PATTERN = re.compile(r"@|(\*|[a-z0-9_-]{1,63})(\.[a-z0-9_-]{1,63})*(\.\*)?")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_QUOTED = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"[ \t]*')
_ESCAPE = re.compile(rb"\\([0-9]{3}|[^0-9]|)")
_ESCAPED = [
    f"\\{chr(octet)}" if chr(octet) in '"\\' else chr(octet) if 0x20 <= octet < 0x7F else f"\\{octet:03}"
    for octet in range(256)
]
"""Each octet of a TXT record as it is written in quotation marks."""
_GENERIC_TYPES = {
    f"TYPE{number}": name
    for name, number in zip(RECORD_TYPES, (1, 28, 257, 5, 65, 15, 33, 44, 64, 52, 16), strict=True)
}
"""The types by their names in RFC 3597, section 5."""
_NUMBERS_MAX = {
    "CNAME": (),
    "HTTPS": (0xFFFF,),
    "MX": (0xFFFF,),
    "SRV": (0xFFFF, 0xFFFF, 0xFFFF),
    "SSHFP": (6, 2),
    "SVCB": (0xFFFF,),
    "TLSA": (3, 1, 2),
}
"""The highest values of the numbers that the values of a type begin with."""
_FINGERPRINT_DIGITS = {"1": 40, "2": 64}
_ASSOCIATION_DIGITS = {"1": 64, "2": 128}
_HEX_CHUNK = 128
_CAA = re.compile(r'([0-9]{1,3})[ \t]+([A-Za-z0-9]+)[ \t]+(?:"([ -!#-\[\]-~]*)"|([!#-\'*-:<-\[\]-~]+))')
_PARAMETERS = ("alpn", "no-default-alpn", "port", "ipv4hint", "ipv6hint")
"""The parameters of HTTPS and SVCB records that are read here, in their order on the wire."""
_PARAMETER = re.compile(r'([a-z0-9-]+)(?:=(?:"([A-Za-z0-9/.:,_-]+)"|([A-Za-z0-9/.:,_-]+)))?')


def parse_name(text: str) -> str:
    """Return the name of a platform domain or subdomain as lower-case A-labels without the final dot.

    Raises:
        ValueError: it is no host name (see `parse_host`), or a label starts with `xn--` and is not an A-label
            by IDNA 2008.
    """
    return _parse_host(text, strict=True)


def parse_host(text: str) -> str:
    """Return the name of a nameserver as lower-case A-labels without the final dot.

    Labels that start with `xn--` are accepted as they are, because names from before IDNA 2008 exist.

    Raises:
        ValueError: an address, a character that no host name has, an empty label, a single label, a last
            label of digits, a label or name that is too long, or refused by IDNA 2008.
    """
    return _parse_host(text, strict=False)


def parse_pattern(text: str) -> str:
    """Return a pattern of names, which is a name or `*.` and a name, in the form of `parse_name`.

    Surrounding spaces are removed.

    Raises:
        ValueError: the reasons of `parse_name`.
    """
    stripped = text.strip()
    wildcard = _WILDCARD if stripped.startswith(_WILDCARD) else ""
    return wildcard + parse_name(stripped.removeprefix(wildcard))


def parse_address(text: str) -> str:
    """Return an IP address in its canonical form (IPv6: RFC 5952).

    Raises:
        ValueError: it is no address, or has leading zeros, spaces, brackets, a zone id, a port or a prefix
            length.
    """
    try:
        if _IPV4.fullmatch(text) or _IPV6.fullmatch(text):
            return str(ipaddress.ip_address(text))
    except ValueError:
        pass
    raise ValueError(f"`{_shown(text)}` is not an IP address. Give one such as 192.0.2.1 or 2001:db8::1.")


def glue_entry(host: str, address: str) -> GlueEntry:
    """Return an address of a nameserver. A host with several addresses has several entries.

    Raises:
        ValueError: as `parse_address`.
    """
    found = parse_address(address)
    return GlueEntry(host=host, ipv6=found) if ":" in found else GlueEntry(host=host, ipv4=found)


def parse_network(text: str) -> str:
    """Return a network in CIDR notation.

    An address alone is a network of one address; surrounding spaces are removed.

    Raises:
        ValueError: it is no network, has bits set after the prefix, or a zone id, which can be any text.
    """
    with suppress(ValueError):
        if "%" not in text:
            return str(ipaddress.ip_network(text.strip()))
    raise ValueError(
        f"`{_shown(text)}` is not a network. Give one such as 192.0.2.0/24 or 2001:db8::/48, without "
        "bits after the prefix."
    )


def parse_ds(record: str | Ds | DsRecord | Dnskey, owner: str) -> str:
    """Return the DS record of the name `owner` as `key-tag algorithm digest-type digest`, with the digest in
    lower case.

    The text is that of a DS or a DNSKEY in a zone file: the name, TTL, class and type may be in front; the
    algorithm may be a mnemonic; comments and parentheses are allowed. A DNSKEY gives its DS record with
    SHA-256 (RFC 4034, section 5.1.4).

    Raises:
        ValueError: `owner` is no name; the text is neither record or has another name in front; or a field is
            wrong or not accepted.
    """
    name = parse_name(owner)
    if isinstance(record, Dnskey):
        record = f"DNSKEY {record.flags} {record.protocol} {record.algorithm} {record.public_key}"
    kind, words = _split_record(str(record), name)
    if kind == "DNSKEY":
        return _ds_of_dnskey(words, name)
    key_tag, algorithm, digest_type = _number(words[0]), _algorithm(words[1]), _number(words[2])
    if key_tag > 0xFFFF:
        raise ValueError(
            f"The key tag {key_tag} is not between 0 and 65535. Copy the DS record from the zone again."
        )
    digits = _DIGEST_DIGITS.get(digest_type)
    if digits is None:
        raise ValueError(f"The digest type {digest_type} is not accepted. Use 2 (SHA-256) or 4 (SHA-384).")
    digest = "".join(words[3:])
    if len(digest) != digits or not _HEX.fullmatch(digest):
        raise ValueError(
            f"A digest of type {digest_type} has {digits} hexadecimal digits, but this digest does not. "
            "Copy the DS record again."
        )
    return f"{key_tag} {algorithm} {digest_type} {digest.lower()}"


def parse_mail_address(text: str) -> str:
    """Return a mail address in its canonical form: one text for one mailbox.

    The domain is in A-labels without a final dot (`parse_host`). The part before the `@` is in lower case and
    in Unicode's form NFC. Surrounding spaces are removed. Dots and tags (`+shop`) are kept.

    Raises:
        ValueError: it is no address, has a quoted local part, is too long, or its domain is no host name.
    """
    local, at, domain = text.strip().rpartition("@")
    if not at or not local or "@" in local:
        raise ValueError(f"`{_shown(text)}` is not a mail address. Give one such as name@example.net.")
    too_long = ValueError(
        f"A mail address has at most {_MAIL_CHARACTERS_MAX} characters, {_LOCAL_PART_CHARACTERS_MAX} "
        "before the @. Give a shorter one."
    )
    if (
        len(local) > _MAIL_CHARACTERS_MAX
    ):  # checked before the normalization, whose work grows with the length
        raise too_long
    local = unicodedata.normalize("NFC", local.lower())
    if not local.isprintable() or _NO_LOCAL_PART_CHARACTER.search(local):
        raise ValueError(
            f"`{_shown(text)}` has a character before the @ that is not allowed in a mail address. Remove it."
        )
    try:
        address = f"{local}@{parse_host(domain)}"
    except ValueError as error:
        if "." not in domain:
            raise ValueError(
                f"`{_shown(text)}` has no full domain after the @. Give an address such as name@example.net."
            ) from error
        raise
    if len(address) > _MAIL_CHARACTERS_MAX or len(local) > _LOCAL_PART_CHARACTERS_MAX:
        raise too_long
    return address


def parse_instant(text: str) -> datetime:
    """Return an instant (RFC 3339, with an offset or `Z`) in UTC.

    Raises:
        ValueError: it is no such instant.
    """
    try:
        return msgspec.convert(text, _INSTANT).astimezone(UTC)
    except (msgspec.ValidationError, OverflowError):
        raise ValueError(
            f"`{_shown(text)}` is not an instant of RFC 3339. Give one such as 2027-01-31T12:00:00Z."
        ) from None


def parse_scope(text: str) -> str:
    """Return the scope of a token.

    Raises:
        ValueError: there is no such scope.
    """
    if text not in SCOPES:
        raise ValueError(f"There is no scope `{_shown(text)}`. Use some of {', '.join(SCOPES)}.")
    return text


def parse_price(text: str) -> int:
    """Return a number of credits, written as a JSON integer.

    Raises:
        ValueError: it is no integer from 0 to `CREDITS_MAX`.
    """
    digits = text.strip(" \t\r\n")
    if not _INTEGER.fullmatch(digits) or int(digits) > CREDITS_MAX:
        raise ValueError(
            f"`{_shown(text)}` is not a number of credits. Give a whole number from 0 to {CREDITS_MAX}."
        )
    return int(digits)


def parse_record_owner(text: str, fqdn: str, domain: str | None = None) -> str:
    """Return the owner of records relative to the name `fqdn`: `@` for the name itself, or labels such as
    `www`, `*` and `*.dev`.

    A text with a final dot, and one that is or ends with `fqdn`, is a full name. All others are relative.
    Without the platform domain of the name, a full name in it without the final dot that is outside `fqdn` is
    taken as relative.

    Raises:
        ValueError: `fqdn` is no name; empty, outside `fqdn`, `*` in another place than the first label, a
            character that is no letter, digit, hyphen or underscore, or too long.
    """
    fqdn = parse_name(fqdn)
    if text in ("@", "*"):
        return text
    wildcard, rest = ("*.", text[2:]) if text.startswith("*.") else ("", text)
    if not text or len(text) > _NAME_OCTETS_MAX + 1 or "*" in rest:
        raise ValueError(
            f"`{_shown(text)}` is no owner. Give one such as `www`, `*` or `@` (the name itself), with at "
            f"most {_NAME_OCTETS_MAX} octets."
        )
    name = ".".join(_parse_labels(rest.removesuffix(".")))
    if f".{name}".endswith(f".{fqdn}"):
        return (wildcard + name.removesuffix(fqdn)).removesuffix(".") or "@"
    if rest.endswith(".") or (domain is not None and f".{name}".endswith(f".{parse_name(domain)}")):
        raise ValueError(f"`{_shown(text)}` is outside `{fqdn}`. Give an owner such as `www`.")
    if len(f"{wildcard}{name}.{fqdn}") > _NAME_OCTETS_MAX:
        raise ValueError(
            f"`{_shown(text)}` has more than {_NAME_OCTETS_MAX} octets with the name. Shorten it."
        )
    return wildcard + name


def parse_record_pattern(text: str) -> str:
    """Return an owner in `record_names` of a token in lower case: one such as `_acme-challenge`, or with `.*`
    at its end all that begin like it.

    Surrounding spaces are removed.

    Raises:
        ValueError: it is no such owner. Full names and other letters than those of ASCII are none.
    """
    name = text.strip().lower()
    if len(name) > _NAME_OCTETS_MAX or not _RECORD_PATTERN.fullmatch(name):
        raise ValueError(
            f"`{_shown(text)}` is no owner of records. Give @, a name such as _acme-challenge, or one that "
            "ends in .* for all that begin like it."
        )
    return name


def parse_record_type(text: str) -> str:
    """Return one of `RECORD_TYPES`.

    The text may be in any case, or the name of the type in RFC 3597 (`TYPE257`).

    Raises:
        ValueError: it is not one of these types. Not checked: that the platform domain accepts it.
    """
    upper = text.upper()
    name = _GENERIC_TYPES.get(upper, upper)
    if name not in RECORD_TYPES:
        raise ValueError(
            f"`{_shown(text)}` is not a type that a name may have. Give one of {', '.join(RECORD_TYPES)}."
        )
    return name


def parse_record_value(text: str, type_name: str, fqdn: str) -> str | None:
    """Return the value of a record of the name `fqdn` in the presentation form of zone files, with absolute
    names in lower case.

    A host with a dot is absolute, with or without the final dot; `@` stands for `fqdn`. A TXT value that
    doesn't begin with a quotation mark is one text. A string of more than 255 octets is split.

    None: only the registry can say what the form is, and whether it accepts the text. These are texts with
    escapes, comments, parentheses or the form of RFC 3597, and HTTPS and SVCB records with parameters other
    than alpn, no-default-alpn, port, ipv4hint and ipv6hint.

    Raises:
        ValueError: `type_name` is no type of records; or the value is empty, too long, has a control
            character, is no address or no TXT value, or has a host that is no name or not written out in
            full.
    """
    kind = parse_record_type(type_name)
    text = text.strip(" \t\r\n")
    if not text or len(text) > (_TXT_CHARACTERS_MAX if kind == "TXT" else _RECORD_CHARACTERS_MAX):
        raise ValueError(f"The value of the {kind} record has {len(text)} characters. Check it.")
    if _CONTROL.search(text):
        raise ValueError(f"`{_shown(text)}` has a line break or control character. Write it in one line.")
    if text.startswith("\\#"):
        return None
    if kind in ("A", "AAAA"):
        return _parse_record_address(kind, text)
    if kind == "TXT":
        return _parse_txt(text)
    if kind == "CAA":
        return _parse_caa(text)
    count = len(_NUMBERS_MAX[kind])
    words = text.split()
    numbers = [str(int(each)) if _NUMBER.fullmatch(each) else "" for each in words[:count]]
    if len(words) <= count or not all(
        each and int(each) <= most for each, most in zip(numbers, _NUMBERS_MAX[kind], strict=True)
    ):
        return None
    if kind in ("SSHFP", "TLSA"):
        rest = _parse_hex(kind, numbers, "".join(words[count:])) if text.isascii() else None
    else:
        rest = _parse_host_and_parameters(kind, numbers, words[count:], fqdn)
    return None if rest is None else " ".join([*numbers, rest])


def _shown(text: str) -> str:
    """Return a text for messages: at most 80 characters, with the code points of unprintable ones."""
    visible = "".join(char if char.isprintable() else f"<U+{ord(char):04X}>" for char in text[:81])
    return visible if len(visible) <= 80 else visible[:79] + "…"


def _parse_host(text: str, *, strict: bool) -> str:
    if _is_address(text):
        raise ValueError(f"`{_shown(text)}` is an address. Give the name of the host.")
    labels = _map_name(text).removesuffix(".").split(".")
    if not all(labels):
        raise ValueError(f"`{_shown(text)}` has an empty label. Remove the dot at its start, or one of two.")
    name = ""
    for label in labels:
        name += ("." if name else "") + _a_label(label, strict=strict)
        if len(name) > _NAME_OCTETS_MAX:  # in the loop, because IDNA is slow
            raise ValueError(
                f"`{_shown(text)}` has more than {_NAME_OCTETS_MAX} octets in the DNS. Give a shorter name."
            )
    if len(labels) < 2:
        raise ValueError(f"`{_shown(text)}` is a single label. Give a full name such as blog.example.net.")
    if labels[-1].isdigit():
        raise ValueError(f"`{_shown(text)}` ends in a label of digits, like an address. Give a full name.")
    return name


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text[:100].strip().removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _map_name(text: str) -> str:
    """Return a name after the mapping of UTS 46: lower case, full-width forms and
    ideographic dots as ASCII.
    """
    if not text or len(text) > _TEXT_CHARACTERS_MAX:
        raise ValueError(
            f"A name has 1 to {_TEXT_CHARACTERS_MAX} characters, and this has {len(text)}. Check it."
        )
    wrong = dict.fromkeys(_NO_NAME_CHARACTER.findall(text))
    if wrong:
        found = ", ".join(f"`{_shown(each)}`" for each in list(wrong)[:_NAMED_MAX])
        raise ValueError(f"`{_shown(text)}` contains {found}. Use letters, digits, hyphens and dots.")
    try:
        mapped = idna.uts46_remap(text, std3_rules=True, transitional=False)
    except ValueError as error:
        raise _refused_by_idna(text, error) from None
    if not mapped:
        raise ValueError("The name has only invisible characters. Give letters, digits or hyphens.")
    return mapped


def _a_label(mapped: str, *, strict: bool) -> str:
    if mapped.startswith("-") or mapped.endswith("-"):
        raise ValueError(f"`{_shown(mapped)}` starts or ends with a hyphen. Remove the hyphen.")
    if len(mapped) > _LABEL_OCTETS_MAX:
        raise ValueError(
            f"`{_shown(mapped)}` has more than {_LABEL_OCTETS_MAX} octets. Give a shorter label."
        )
    if mapped.isascii() and not (strict and mapped.startswith("xn--")):
        return mapped
    try:
        return idna.alabel(mapped).decode("ascii")
    except ValueError as error:
        raise _refused_by_idna(mapped, error) from None


def _refused_by_idna(text: str, error: ValueError) -> ValueError:
    return ValueError(
        f"`{_shown(text)}` is refused by IDNA 2008: {_shown(str(error).rstrip('.'))}. Check the spelling."
    )


def _split_record(text: str, owner: str) -> tuple[str, list[str]]:
    """Return DS or DNSKEY, and the words of its fields: three, then the parts of the digest or key."""
    if len(text) > _DS_CHARACTERS_MAX:
        raise ValueError(
            f"The text is too long for a DS record: it has {len(text)} characters. Give one record."
        )
    words = _COMMENT.sub(" ", text).replace("(", " ").replace(")", " ").split()
    kind = None
    for index, word in enumerate(words[:4]):
        if word.upper() in ("DS", "DNSKEY"):
            _check_front(words[:index], owner)
            kind, words = word.upper(), words[index + 1 :]
            break
    if len(words) < 4 or not _NUMBER.fullmatch(words[0]):
        raise ValueError(
            f"`{_shown(text)}` is no DS record. Write the key tag, the algorithm, the digest type and the "
            "digest, as in `2371 13 2 1f98…`, or a DNSKEY."
        )
    known_flags = _ZONE_FLAG | _REVOKE_FLAG | _SEP_FLAG
    looks_like_dnskey = int(words[0]) & ~known_flags == 0 and words[1] == "3"
    return kind or ("DNSKEY" if looks_like_dnskey else "DS"), words


def _check_front(front: list[str], owner: str) -> None:
    """Raise unless the words before the type are the owner, a TTL (`3600` or `1h`) and the class, as far as
    they are given.
    """
    names = [word for word in front if word.upper() != "IN" and not _TTL.fullmatch(word)]
    if not names or names == ["@"]:
        return
    try:
        if len(names) == 1 and parse_host(names[0]) == owner:
            return
    except ValueError:
        pass
    raise ValueError(f"The record belongs to `{_shown(' '.join(names))}`. Give a record of `{owner}`.")


def _number(word: str) -> int:
    if not _NUMBER.fullmatch(word):
        raise ValueError(f"`{_shown(word)}` is not a number. Copy the record from the zone again.")
    return int(word)


def _algorithm(word: str) -> int:
    number = _ALGORITHM_NUMBERS.get(word.upper(), word)
    if not _NUMBER.fullmatch(number) or int(number) not in _ALGORITHMS:
        known = ", ".join(f"{number} ({name})" for number, name in _ALGORITHMS.items())
        raise ValueError(f"The algorithm {_shown(word)} is not accepted. Use one of {known}.")
    return int(number)


def _ds_of_dnskey(words: list[str], owner: str) -> str:
    flags, protocol, algorithm = _number(words[0]), _number(words[1]), _algorithm(words[2])
    if protocol != 3:
        raise ValueError(f"The protocol of a DNSKEY is 3, not {protocol}. Check that this is a DNSKEY.")
    if flags > 0xFFFF or not flags & _ZONE_FLAG or flags & _REVOKE_FLAG:
        raise ValueError(
            f"The flags {flags} are not those of a zone key in use. Give a key with the flags 257 or 256."
        )
    rdata = (
        flags.to_bytes(2, "big") + bytes([protocol, algorithm]) + _public_key(algorithm, "".join(words[3:]))
    )
    total = sum(octet if index % 2 else octet << 8 for index, octet in enumerate(rdata))
    key_tag = (total + (total >> 16 & 0xFFFF)) & 0xFFFF  # RFC 4034, appendix B
    wire_name = b"".join(bytes([len(label)]) + label.encode("ascii") for label in owner.split(".")) + b"\0"
    return f"{key_tag} {algorithm} 2 {hashlib.sha256(wire_name + rdata).hexdigest()}"


def _public_key(algorithm: int, text: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except ValueError:
        key = b""
    octets = _KEY_OCTETS.get(algorithm)
    if not (128 <= _rsa_modulus_octets(key) <= 512 if octets is None else len(key) == octets):
        what = "an RSA key of 1024 to 4096 bits" if octets is None else f"{octets} octets"
        raise ValueError(
            f"A public key of {_ALGORITHMS[algorithm]} is {what} in base64, but this key is not. Copy the "
            "DNSKEY again."
        )
    return key


def _rsa_modulus_octets(key: bytes) -> int:
    """Return the length of the modulus of an RSA key (RFC 3110, section 2); 0 if it is none."""
    if len(key) < 3:
        return 0
    start, exponent_octets = (1, key[0]) if key[0] else (3, int.from_bytes(key[1:3], "big"))
    exponent, modulus = key[start : start + exponent_octets], key[start + exponent_octets :]
    return len(modulus) if any(exponent) and modulus and modulus[0] else 0


def _parse_labels(text: str) -> list[str]:
    """Return the labels of a name without the final dot. They may have underscores."""
    labels: list[str] = []
    octets = -1
    for label in text.lower().split("."):
        if _LABEL.fullmatch(label):
            labels.append(label)
        elif not label or (label.isascii() and len(label) <= _LABEL_OCTETS_MAX):
            raise ValueError(
                f"`{_shown(text)}` has an empty label, or a character that no name here may have. Use "
                "letters, digits, hyphens and underscores."
            )
        else:
            mapped = _map_name(label)
            if "." in mapped:
                raise ValueError(f"`{_shown(label)}` has a dot that is not ASCII. Write it as `.`.")
            labels.append(_a_label(mapped, strict=True))
        octets += len(labels[-1]) + 1
        if octets > _NAME_OCTETS_MAX:  # in the loop, because IDNA is slow
            raise ValueError(f"`{_shown(text)}` has more than {_NAME_OCTETS_MAX} octets. Shorten it.")
    return labels


def _parse_record_address(kind: str, text: str) -> str:
    form = _IPV4 if kind == "A" else _IPV6
    address = parse_address(text)
    if not form.fullmatch(text) or (":" in text) != (kind == "AAAA"):
        raise ValueError(f"`{_shown(text)}` is no address of {kind} records. Check the address or the type.")
    return address if kind == "A" else _ipv6_text(address)


def _ipv6_text(address: str) -> str:
    """Return an IPv6 address as name servers write it: one that stands for an IPv4 address ends in that
    address.
    """
    found = ipaddress.IPv6Address(address)
    ipv4 = ipaddress.IPv4Address(found.packed[12:])
    if found.ipv4_mapped is not None:
        return f"::ffff:{ipv4}"
    if not any(found.packed[:12]) and any(found.packed[12:14]):
        return f"::{ipv4}"
    return str(found)


def _parse_caa(text: str) -> str | None:
    found = _CAA.fullmatch(text)
    if found is None or int(found[1]) not in (0, 128):
        return None
    return f'{int(found[1])} {found[2]} "{found[3] if found[4] is None else found[4]}"'


def _parse_hex(kind: str, numbers: list[str], digits: str) -> str | None:
    """Return the data of TLSA and SSHFP records."""
    if kind == "SSHFP":
        wanted = _FINGERPRINT_DIGITS.get(numbers[1]) if numbers[0] in ("1", "2", "3", "4", "6") else None
    else:
        wanted = _ASSOCIATION_DIGITS.get(numbers[2], len(digits) // 2 * 2)
    if len(digits) != wanted or not _HEX.fullmatch(digits):
        return None
    return " ".join(digits[at : at + _HEX_CHUNK].lower() for at in range(0, len(digits), _HEX_CHUNK))


def _parse_host_and_parameters(kind: str, numbers: list[str], words: list[str], fqdn: str) -> str | None:
    host, *parameters = words
    absolute = _absolute_host(kind, host, fqdn)
    if not parameters:
        return absolute
    if kind not in ("HTTPS", "SVCB") or numbers[0] == "0":
        return None
    found: dict[str, str] = {}
    for each in parameters:
        matched = _PARAMETER.fullmatch(each)
        if matched is None or matched[1] not in _PARAMETERS or matched[1] in found:
            return None
        value = _parameter_value(matched[1], matched[2] or matched[3])
        if value is None:
            return None
        found[matched[1]] = value
    if "no-default-alpn" in found and "alpn" not in found:
        return None
    return " ".join([absolute, *(found[each] for each in _PARAMETERS if each in found)])


def _parameter_value(name: str, text: str | None) -> str | None:
    if name == "no-default-alpn":
        return name if text is None else None
    if text is None:
        return None
    items = text.split(",")
    if name == "port":
        if not _NUMBER.fullmatch(text) or int(text) > 0xFFFF:
            return None
        items = [str(int(text))]
    elif name != "alpn":
        try:
            items = [_parse_record_address("A" if name == "ipv4hint" else "AAAA", each) for each in items]
        except ValueError:
            return None
    elif not all(items):
        return None
    return f'{name}="{",".join(items)}"'


def _parse_txt(text: str) -> str:
    chunks: list[bytes] = []
    for part in _strings(text):
        octets = _unescape(part)
        places = range(0, len(octets) or 1, _STRING_OCTETS_MAX)
        chunks.extend(octets[at : at + _STRING_OCTETS_MAX] for at in places)
    canonical = " ".join(f'"{"".join(map(_ESCAPED.__getitem__, chunk))}"' for chunk in chunks)
    if len(canonical) > _TXT_CHARACTERS_MAX:
        raise ValueError(f"`{_shown(text)}` is too long. Shorten it.")
    return canonical


def _strings(text: str) -> list[str]:
    """Return the strings of a TXT value, still with their escapes."""
    if not text.startswith('"'):
        return [text]
    strings: list[str] = []
    at = 0
    while at < len(text):
        found = _QUOTED.match(text, at)
        if found is None:
            raise ValueError(
                f"`{_shown(text)}` has a quotation mark too few, or text outside of quotation marks. Put "
                "each string into quotation marks."
            )
        strings.append(str(found[1]))
        at = found.end()
    return strings


def _unescape(part: str) -> bytes:
    def octet(found: re.Match[bytes]) -> bytes:
        escaped = found[1]
        if len(escaped) == 1:
            return escaped
        if not escaped or int(escaped) > 255:
            raise ValueError(
                f"`{_shown(part)}` has a backslash without a meaning. Write a backslash as `\\\\`, and an "
                "octet with three digits."
            )
        return bytes([int(escaped)])

    return _ESCAPE.sub(octet, part.encode())


def _absolute_host(kind: str, text: str, fqdn: str) -> str:
    if text == "@":
        return f"{parse_name(fqdn)}."
    if text == "." and kind != "CNAME":
        return text  # no mail, no service, or the owner itself
    if "." not in text:
        raise ValueError(
            f"`{_shown(text)}` is a single label. Write the name out in full, or `@` for the name itself."
        )
    name = text.removesuffix(".")
    if kind in ("MX", "SRV") or name.rpartition(".")[2].isdigit():
        return f"{parse_host(text)}."
    return f"{'.'.join(_parse_labels(name))}."
