"""Parse DS records from all the forms that users may send into the published form."""

import base64
import hashlib
import re
from collections.abc import Sequence
from typing import Final

from sublet.dns.names import InvalidName, parse_host_name, shown
from sublet.dns.records import is_ttl
from sublet.dns.types import Dnskey, DsLike, DsRecord

TEXT_CHARACTERS_MAX: Final = 4000
"""The maximum length of a text. A DNSKEY with an RSA key of 4,096 bits fits."""

SHA256: Final = 2
SHA384: Final = 4

DIGEST_OCTETS: Final = {2: 32, 4: 48}
"""The accepted digest types with their lengths: SHA-256 (RFC 4509) and SHA-384 (RFC 6605)."""

_REFUSED_DIGEST_TYPES: Final = {
    1: "SHA-1 digests must not be used (RFC 9904)",
    3: "GOST R 34.11-94 digests must not be used (RFC 9904)",
}

_ALGORITHMS: Final = {
    8: "RSASHA256",
    10: "RSASHA512",
    13: "ECDSAP256SHA256",
    14: "ECDSAP384SHA384",
    15: "ED25519",
    16: "ED448",
}
_RSASHA512: Final = 10
_ED448: Final = 16
_RETIRED_ALGORITHMS: Final = {
    1: "RSAMD5",
    3: "DSA",
    5: "RSASHA1",
    6: "DSA-NSEC3-SHA1",
    7: "RSASHA1-NSEC3-SHA1",
    12: "ECC-GOST",
}
_ALGORITHM_NUMBERS: Final = {name: number for number, name in (_ALGORITHMS | _RETIRED_ALGORITHMS).items()}
_KEY_OCTETS: Final = {13: 64, 14: 96, 15: 32, 16: 57}  # RFC 6605, section 4; RFC 8080, section 3
_RSA_MODULUS_OCTETS: Final = range(128, 513)  # 1,024 bits (validators' minimum) to 4,096 (RFC 3110)

_ZONE_FLAG: Final = 0x0100
_REVOKE_FLAG: Final = 0x0080
_SEP_FLAG: Final = 0x0001

_HEX: Final = re.compile(r"([0-9A-Fa-f]{2})+")
_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_COMMENT: Final = re.compile(r";[^\n]*")
_FORMS: Final = (
    "`key-tag algorithm digest-type digest` of a DS, or `flags protocol algorithm public-key` of a DNSKEY"
)


class InvalidDs(ValueError):  # noqa: N818 - named like the classes in sublet.errors
    """The input is not a usable DS record.

    `str()` is a message for users, `member` is the wrong field of an object, or None.
    """

    def __init__(self, message: str, member: str | None = None) -> None:
        super().__init__(message)
        self.member = member


def parse_ds(owner: str, form: DsLike) -> DsRecord:
    """Return the DS record of the canonical name `owner` that a user sent in one of the forms.

    The form is a DS or a DNSKEY, as an object or as zone-file text (`2371 13 2 684a…`). Text may have the
    name, TTL, class and type in front, comments, parentheses, and spaces in the digest or key. The TTL is in
    seconds or has units (`1h30m`), before or after the class. A DNSKEY gives its SHA-256 DS (RFC 4034,
    section 5.1.4). Not checked: that the zone is signed with the key, and that the key is a point on its
    curve.

    Raises:
        InvalidDs: the first of these problems. Text: too long, another name in front, neither form. DNSKEY:
            protocol, flags, algorithm, key. DS: key tag, algorithm, digest type, digest.
    """
    if isinstance(form, str):
        return _from_text(owner, form)
    if isinstance(form, Dnskey):
        return _from_dnskey(owner, form)
    return _from_ds(form)


def ds_warnings(ds_records: Sequence[DsRecord]) -> tuple[str, ...]:
    """Return warnings about valid DS records that may harm the registrant (RFC 9904; RFC 4035, section 2.2).

    A validator that supports none of a name's DS records treats the name as unsigned (RFC 4035, section 5.2).
    Some validators don't support ED448 or SHA-384. So there is a warning if all records use ED448, and
    another one if all records use SHA-384. Not checked: several records that each use one of the two, and
    that the zone is signed.
    """
    algorithms = sorted({each.algorithm for each in ds_records})
    digest_types = {each.digest_type for each in ds_records}
    warnings = []
    if algorithms == [_ED448]:
        warnings.append(
            "All DS records are for keys of algorithm 16 (ED448). Validators without ED448 treat the name as "
            "unsigned (RFC 9904). All validators support algorithm 13 (ECDSAP256SHA256)."
        )
    if _RSASHA512 in algorithms:
        warnings.append(
            "A DS record is for a key of algorithm 10 (RSASHA512), which RFC 9904 advises against for "
            "signing. "
            "Use 13 (ECDSAP256SHA256) or 8 (RSASHA256)."
        )
    if digest_types == {SHA384}:
        warnings.append(
            "All DS records have digests of type 4 (SHA-384). Validators without SHA-384 treat the name as "
            "unsigned (RFC 9904). Add DS records of type 2 (SHA-256)."
        )
    if len(algorithms) > 1:
        named = " and ".join(f"{number} ({_ALGORITHMS.get(number, '?')})" for number in algorithms)
        warnings.append(
            f"The DS records are for keys of several algorithms, {named}: the zone must be signed with each "
            "of them (RFC 4035, section 2.2). After a change of the algorithm remove the old DS records."
        )
    return tuple(warnings)


def dnskey_warnings(owner: str, forms: Sequence[DsLike]) -> tuple[str, ...]:
    """Return a warning for each DNSKEY without the SEP flag.

    `forms` are DS records and DNSKEYs of the canonical name `owner`. DS records, which don't show the flag,
    and invalid ones are skipped.
    """
    warnings = []
    for each in forms:
        try:
            key = _read_text(owner, each) if isinstance(each, str) else each
            if isinstance(key, Dnskey) and not key.flags & _SEP_FLAG:
                warnings.append(
                    f"The DNSKEY with key tag {_from_dnskey(owner, key).key_tag} has the flags {key.flags}, "
                    "without the SEP flag (RFC 4034, section 2.1.1). Normally the DS record belongs to the "
                    "key with the flags 257."
                )
        except InvalidDs:
            continue
    return tuple(dict.fromkeys(warnings))


def key_tag(rdata: bytes) -> int:
    """Return the key tag of a DNSKEY's rdata (RFC 4034, appendix B).

    Algorithm 1 has another formula, and is refused anyway.
    """
    total = sum(octet if index % 2 else octet << 8 for index, octet in enumerate(rdata))
    return (total + (total >> 16 & 0xFFFF)) & 0xFFFF


def wire_name(name: str) -> bytes:
    """Return the canonical name in wire form (RFC 1035, section 3.1)."""
    return b"".join(bytes([len(label)]) + label.encode("ascii") for label in name.split(".")) + b"\0"


def _from_ds(ds: DsRecord) -> DsRecord:
    if not 0 <= ds.key_tag <= 0xFFFF:
        raise InvalidDs(
            f"The key tag {ds.key_tag} is not between 0 and 65535. Check the DS record.", "key_tag"
        )
    _refuse_algorithm(ds.algorithm)
    octets = DIGEST_OCTETS.get(ds.digest_type)
    if octets is None:
        reason = _REFUSED_DIGEST_TYPES.get(
            ds.digest_type, f"The digest type {ds.digest_type} is not supported"
        )
        raise InvalidDs(f"{reason}. Use 2 (SHA-256) or 4 (SHA-384).", "digest_type")
    if not _HEX.fullmatch(ds.digest) or len(ds.digest) != 2 * octets:
        raise InvalidDs(
            f"A digest of type {ds.digest_type} has {2 * octets} hexadecimal digits, but this digest does "
            "not. Check that the digest is complete.",
            "digest",
        )
    return DsRecord(ds.key_tag, ds.algorithm, ds.digest_type, ds.digest.lower())


def _from_dnskey(owner: str, dnskey: Dnskey) -> DsRecord:
    if dnskey.protocol != 3:
        raise InvalidDs(
            f"The protocol of a DNSKEY is 3, not {dnskey.protocol}. Check that this is a DNSKEY.", "protocol"
        )
    if not 0 <= dnskey.flags <= 0xFFFF or not dnskey.flags & _ZONE_FLAG:
        raise InvalidDs(
            f"The flags {dnskey.flags} are not those of a zone key. Give a key with the flags 257 or 256.",
            "flags",
        )
    if dnskey.flags & _REVOKE_FLAG:
        raise InvalidDs(
            f"The flags {dnskey.flags} mean that the key is revoked (RFC 5011). Give another key.", "flags"
        )
    _refuse_algorithm(dnskey.algorithm)
    key = _public_key(dnskey)
    rdata = dnskey.flags.to_bytes(2, "big") + bytes([dnskey.protocol, dnskey.algorithm]) + key
    digest = hashlib.sha256(wire_name(owner) + rdata).hexdigest()
    return DsRecord(key_tag(rdata), dnskey.algorithm, SHA256, digest)


def _refuse_algorithm(algorithm: int) -> None:
    if algorithm in _ALGORITHMS:
        return
    retired = _RETIRED_ALGORITHMS.get(algorithm)
    why = (
        f"{algorithm} ({retired}) must not be used any more (RFC 9904)"
        if retired
        else f"{algorithm} is not supported"
    )
    known = ", ".join(f"{number} ({name})" for number, name in _ALGORITHMS.items())
    raise InvalidDs(f"Algorithm {why}. Use one of {known}.", "algorithm")


def _public_key(dnskey: Dnskey) -> bytes:
    name = _ALGORITHMS[dnskey.algorithm]
    if len(dnskey.public_key) > TEXT_CHARACTERS_MAX:
        raise InvalidDs(f"The public key is too long for {name}. Check the key.", "public_key")
    try:
        key = base64.b64decode("".join(dnskey.public_key.split()), validate=True)
    except ValueError:
        raise InvalidDs(
            "The public key is not base64. Check that the key is complete.", "public_key"
        ) from None
    octets = _KEY_OCTETS.get(dnskey.algorithm)
    if octets is None:
        if _rsa_modulus_octets(key) not in _RSA_MODULUS_OCTETS:
            raise InvalidDs(
                "The public key is not an RSA key of 1024 to 4096 bits. Check the key, or use another key "
                f"for {name}.",
                "public_key",
            )
    elif len(key) != octets:
        raise InvalidDs(
            f"A public key of {name} has {octets} octets, but this key has {len(key)}. Check that the key "
            "is complete.",
            "public_key",
        )
    return key


def _rsa_modulus_octets(key: bytes) -> int:
    """Return the length of the modulus of an RSA key in the form of RFC 3110, section 2; 0 if the key is not
    in this form.
    """
    if len(key) < 3:
        return 0
    start, exponent_octets = (1, key[0]) if key[0] else (3, int.from_bytes(key[1:3], "big"))
    exponent = key[start : start + exponent_octets]
    modulus = key[start + exponent_octets :]
    if not any(exponent) or not modulus or modulus[0] == 0:
        return 0
    return len(modulus)


def _from_text(owner: str, text: str) -> DsRecord:
    record = _read_text(owner, text)
    try:
        return _from_dnskey(owner, record) if isinstance(record, Dnskey) else _from_ds(record)
    except InvalidDs as error:
        raise InvalidDs(str(error)) from None  # without `member`, because text has no fields


def _read_text(owner: str, text: str) -> DsRecord | Dnskey:
    if len(text) > TEXT_CHARACTERS_MAX:
        raise InvalidDs(
            f"The text is too long for a DS record: it has {len(text)} characters. Give one record in each "
            "entry."
        )
    words = _COMMENT.sub(" ", text).replace("(", " ").replace(")", " ").split()
    kind, words = _split_type(owner, words)
    if len(words) < 4 or not _NUMBER.fullmatch(words[0]):
        raise InvalidDs(f"`{shown(text)}` is not a DS record. Give {_FORMS}.")
    if kind is None:
        kind = "DNSKEY" if _looks_like_dnskey(words) else "DS"
    if kind == "DNSKEY":
        flags, protocol, algorithm = int(words[0]), _number(words[1]), _algorithm(words[2])
        return Dnskey(flags, protocol, algorithm, "".join(words[3:]))
    tag, algorithm, digest_type = int(words[0]), _algorithm(words[1]), _number(words[2])
    return DsRecord(tag, algorithm, digest_type, "".join(words[3:]))


def _split_type(owner: str, words: list[str]) -> tuple[str | None, list[str]]:
    """Return the type, and the words after `[name] [TTL] [class] type` or `[name] [class] [TTL] type`.

    Without a type, return None and all words.
    """
    kinds = [index for index, word in enumerate(words[:4]) if word.upper() in ("DS", "DNSKEY")]
    if not kinds:
        return None, words
    at = kinds[0]
    front = [word for word in words[:at] if word.upper() != "IN" and not is_ttl(word)]
    if front and front != ["@"]:
        try:
            same = len(front) == 1 and parse_host_name(front[0]) == owner
        except InvalidName:
            same = False
        if not same:
            raise InvalidDs(f"The record belongs to `{shown(' '.join(front))}`. Give a record of `{owner}`.")
    return words[at].upper(), words[at + 1 :]


def _looks_like_dnskey(words: list[str]) -> bool:
    """True if the words start like a DNSKEY: only known flags, then protocol 3.

    A DS whose second word is 3 has the algorithm DSA, which is refused anyway.
    """
    flags_known = int(words[0]) & ~(_ZONE_FLAG | _REVOKE_FLAG | _SEP_FLAG) == 0
    return flags_known and words[1] == "3"


def _number(word: str) -> int:
    if not _NUMBER.fullmatch(word):
        raise InvalidDs(f"`{shown(word)}` is not a number. Give {_FORMS}.")
    return int(word)


def _algorithm(word: str) -> int:
    named = _ALGORITHM_NUMBERS.get(word.upper())
    return _number(word) if named is None else named
