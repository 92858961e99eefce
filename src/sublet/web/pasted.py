"""Read nameservers, glue and DS records from what people paste.

That is a list, a table of a DNS provider, labels with their values, an answer of `dig`, `host` or `nslookup`,
JSON, or a whole zone file. Lines without anything for the field are ignored, and named. The API checks the
values, each once.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from itertools import dropwhile, takewhile, zip_longest
from typing import Generic, TypeVar

from msgspec import Struct

from sublet.dns.addresses import InvalidAddress, parse_ipv4, parse_ipv6
from sublet.dns.names import InvalidName, is_at_or_below, parse_host_name
from sublet.dns.records import is_ttl

ValueT = TypeVar("ValueT")

CHARACTERS_MAX, LINES_MAX = 8_000, 1_000
"""How many characters and lines of a field are read. The rest is ignored."""
_EDGES = "\"'`[]{}(),;:|*•·→>\u2013\u2014"
_NAME_OF_NUMBER = re.compile(r"\([A-Za-z][A-Za-z0-9 /,._-]{1,30}\)")
"""The name of a number, as in `13 (ECDSAP256SHA256)`. A digest or a key in parentheses is longer."""
_TYPES = frozenset(
    (
        "NS",
        "SOA",
        "A",
        "AAAA",
        "MX",
        "TXT",
        "CNAME",
        "DNAME",
        "SRV",
        "CAA",
        "PTR",
        "HTTPS",
        "SVCB",
        "TLSA",
        "SSHFP",
    )
) | frozenset(("DS", "DNSKEY", "CDS", "CDNSKEY", "RRSIG", "NSEC", "NSEC3", "NSEC3PARAM"))
_ADDRESS_TYPES = ("A", "AAAA")
_DS_TYPES = ("DS", "DNSKEY", "CDS", "CDNSKEY")
_NUMBERS = {
    "RSASHA1": "5",
    "RSASHA256": "8",
    "RSASHA512": "10",
    "ECDSAP256SHA256": "13",
    "ECDSAP384SHA384": "14",
    "ED25519": "15",
    "ED448": "16",
    "SHA1": "1",
    "SHA256": "2",
    "SHA384": "4",
}
"""The names of algorithms and of digest types, without signs."""
_LABELS = {
    **dict.fromkeys(("keytag", "keyid", "tag"), "tag"),
    **dict.fromkeys(("algorithm", "keyalgorithm", "alg", "algonum"), "algorithm"),
    **dict.fromkeys(("digesttype", "digestalgorithm", "hashtype"), "digest type"),
    **dict.fromkeys(("digest", "hash"), "digest"),
    **dict.fromkeys(("flags", "flag", "keyflags"), "flags"),
    **dict.fromkeys(("publickey", "key"), "public key"),
}
"""What the labels of DNS providers mean, in lower case and without signs."""
_HOST_LABELS = frozenset(
    (
        *("name", "names", "server", "servers", "nameserver", "nameservers", "nserver", "ns", "dns"),
        *("host", "hosts", "hostname", "hostnames", "primary", "secondary", "first", "second", "third"),
        *("fourth", "value", "values", "data", "target", "record", "records", "type", "in", "ds", "dnssec"),
    )
)
"""The words that label nameservers and DS records, in lower case and without signs and digits."""
_DS_PARTS = ("tag", "algorithm", "digest type", "digest")
_KEY_PARTS = ("flags", "algorithm", "public key")
_LONG_PART = re.compile("[0-9A-Za-z+/=]{16,}|[0-9A-Fa-f]{8,}")
"""A part of a digest or a key, and not a word beside it."""


class Pasted(Struct, Generic[ValueT], frozen=True):
    """What a field has: each value once, and the lines that are ignored."""

    values: tuple[ValueT, ...] = ()
    ignored: tuple[str, ...] = ()


class PastedDelegation(Struct, frozen=True):
    """The entries of the three fields, and the ignored lines of all of them.

    `is_list` is true if the field of nameservers has nothing but host names.
    """

    nameservers: tuple[str, ...]
    glue: tuple[dict[str, str], ...]
    ds_records: tuple[str, ...]
    ignored: tuple[str, ...]
    is_list: bool


def parse_pasted_delegation(nameservers: str, glue: str, ds_records: str, fqdn: str) -> PastedDelegation:
    """Return what the three fields have for the name `fqdn`.

    The field of nameservers may also have the addresses of those at or below the name, and DS records: DNS
    providers show them in one box. A line is ignored if no field takes anything from it.
    """
    read = _read_nameservers(nameservers, fqdn)
    hosts = read.as_pasted()
    may_have_ds = any(map(str.isdigit, nameservers)) and _LONG_PART.search(nameservers)
    boxed = parse_pasted_ds(nameservers, fqdn) if may_have_ds else Pasted()
    boxed_keys = [each for each in boxed.values if _ds_of_words(each.split()) == each]
    if boxed_keys:
        hosts = _pasted(
            read.hosts, (each for each in read.ignored if _NAME_OF_NUMBER.sub(" ", each) in boxed.ignored)
        )
    below = {each for each in hosts.values if fqdn and is_at_or_below(each, fqdn)}
    beside = parse_pasted_glue(nameservers if below else "", fqdn, below)
    own = parse_pasted_glue(glue, fqdn, below)
    keys = parse_pasted_ds(ds_records, fqdn)
    entries = [*(each for each in beside.values if each["host"] in below and len(each) > 1), *own.values]
    once = {tuple(each.items()): each for each in entries}
    no_glue = set(beside.ignored)
    ignored = [each for each in hosts.ignored if not below or each in no_glue]
    seen = _lines(nameservers)
    return PastedDelegation(
        hosts.values,
        tuple(once.values()),
        tuple(dict.fromkeys((*boxed_keys, *keys.values))),
        (*ignored, *own.ignored, *(each for each in keys.ignored if each not in seen)),
        all(_host(each) for each in nameservers[:CHARACTERS_MAX].replace(",", " ").replace(";", " ").split()),
    )


def parse_pasted_nameservers(text: str, fqdn: str = "") -> Pasted[str]:
    """Return the host names in a text that was pasted for the name `fqdn`.

    Records of other types and of names below `fqdn` are ignored. Headings, which end with a colon or have
    nothing but labels, are left out. Hosts in sentences, such as `Nameservers at provider.example`, count
    only if no other line has hosts. What the API must refuse is a value too: a host with a comma for its last
    dot, and a line of one word that is no host name. If other lines have hosts, such a line is ignored,
    unless it has a dot and is no address, mail address or URL.
    """
    return _read_nameservers(text, fqdn).as_pasted()


class _Nameservers(Struct, frozen=True):
    """What the field of nameservers has: hosts, also mistyped ones; lines that are ignored; and what the API
    refuses if there is no host.
    """

    hosts: list[str]
    ignored: list[str]
    instead: list[str]

    def as_pasted(self) -> Pasted[str]:
        """Return the hosts and the ignored lines. Without hosts, return what the API refuses."""
        return _pasted(self.hosts, self.ignored) if self.hosts else _pasted(self.instead, ())


def _read_nameservers(text: str, fqdn: str) -> _Nameservers:
    found: dict[_Line, list[str]] = {kind: [] for kind in _Line}
    sentences = []
    for line in _lines(text):
        kind, values = _read_line(line, fqdn)
        found[kind] += values
        if kind is _Line.SENTENCE:
            sentences.append(line)
    words, others = found[_Line.WORD], found[_Line.OTHER]
    hosts = found[_Line.HOSTS] or found[_Line.SENTENCE]
    ignored = [*words, *others, *(sentences if found[_Line.HOSTS] else ())]
    return _Nameservers(hosts, ignored, words or others or found[_Line.HEADING])


class _Line(Enum):
    """What a line of the field of nameservers is."""

    HOSTS, SENTENCE, HEADING, WORD, OTHER = range(5)


def _read_line(line: str, fqdn: str) -> tuple[_Line, list[str]]:
    """Return what a line of the field of nameservers is, and its hosts, its only word, or the line."""
    if slips := [each for each in line.split() if _has_comma_for_dot(each)]:
        return _Line.HOSTS, slips
    words = _words(line)
    record = _type_of(words)
    hosts = [host for word in words if (host := _host(word))]
    if record is not None:
        hosts = _hosts_of_ns(words, fqdn) if record == "NS" else []
    elif len(words) > 1:
        hosts = [each for each in hosts if each != fqdn]
    if _is_heading(line, words, record, hosts):
        return _Line.HEADING, [line]
    if hosts:
        return _Line.SENTENCE if record is None and _is_sentence(words) else _Line.HOSTS, hosts
    if len(words) > 1 or record:
        return _Line.OTHER, [line]
    is_host = "." in words[0] and not _address(words[0]) and not set("@/") & set(words[0])
    return _Line.HOSTS if is_host else _Line.WORD, words[:1]


def _is_heading(line: str, words: list[str], record: str | None, hosts: list[str]) -> bool:
    """True for a line such as `Type  Value`, or `Your nameservers at provider.example are:`."""
    if len(words) > 1 and not hosts and record != "NS" and all(map(_may_label, words)):
        return True
    return line.endswith(":") and record is None and (len(words) > 1 or not hosts)


def parse_pasted_glue(text: str, fqdn: str = "", nameservers: Collection[str] = ()) -> Pasted[dict[str, str]]:
    """Return the entries of glue in lines such as `ns1.a.example 192.0.2.1`, and in A and AAAA records.

    Of records, only those of `nameservers` at or below `fqdn` are taken. A word that isn't an address is
    returned as an address, so that the API refuses it.
    """
    found: list[tuple[tuple[str, str], ...]] = []
    ignored = []
    for line in _lines(text):
        words = _words(line)
        record = _type_of(words)
        words = [each for each in words if each.upper() not in ("IN", *_ADDRESS_TYPES) and not is_ttl(each)]
        host = next((host for word in words if (host := _host(word))), words[0] if words else line)
        if record is not None:
            host = host if _host(host) else f"{host}.{fqdn}"
            if record not in _ADDRESS_TYPES or host not in nameservers or not is_at_or_below(host, fqdn):
                ignored.append(line)
                continue
        found += _glue_entries(host, words)
    entries = _pasted(found, ignored)
    return Pasted(tuple(dict(each) for each in entries.values), entries.ignored)


def parse_pasted_ds(text: str, fqdn: str = "") -> Pasted[str]:
    """Return the DS records and DNSKEYs of a text, each on one line, as the API takes them.

    Records of other types and of names below `fqdn` are ignored, and a DNSKEY with the flags 256 if there is
    one with 257. A text without any of them is returned, so that the API refuses it.
    """
    found: list[str] = []
    ignored: list[str] = []
    labelled: list[tuple[str, list[str]]] = []
    for line in (part for each in _lines(_NAME_OF_NUMBER.sub(" ", text)) for part in _split_at_labels(each)):
        words = _words(line)
        record = _type_of(words)
        label, count = _label_of(words)
        if record is not None:
            value = _ds_of_record(words, fqdn) if record in _DS_TYPES else None
            (ignored if value is None else found).append(value or line)
        elif value := _ds_of_words(words):
            found.append(value)
        elif label:
            labelled.append((label, words[count:]))
        elif labelled:
            labelled[-1][1].extend(words)
        elif words[0].isdigit():
            found.append(line)
        else:
            ignored.append(line)
    found += _records_of_labels(labelled)
    if any(_has_flags(each, "257") for each in found):
        ignored += [each for each in found if _has_flags(each, "256")]
        found = [each for each in found if not _has_flags(each, "256")]
    if not found:
        return _pasted(ignored or [text.strip()] if text.strip() else (), ())
    return _pasted(found, (each for each in ignored if not each.endswith(":")))


def _pasted(values: Iterable[ValueT], ignored: Iterable[str]) -> Pasted[ValueT]:
    return Pasted(tuple(dict.fromkeys(values)), tuple(dict.fromkeys(ignored)))


def _hosts_of_ns(words: list[str], fqdn: str) -> list[str]:
    """Return the hosts of an NS record, in any order of its columns; none if it is below `fqdn`."""
    at = [word.upper() for word in words].index("NS")
    front, rest = words[:at], words[at + 1 :]
    is_in_zone_file = "IN" in (word.upper() for word in front)
    if front and (_is_below(front[0], fqdn) or (is_in_zone_file and _is_label(front[0]) and len(front) > 1)):
        return []
    hosts = [host for word in rest if (host := _host(word)) and host != fqdn]
    if not hosts and is_in_zone_file and rest and _is_label(rest[0]):
        hosts = [f"{rest[0]}.{fqdn}"]  # relative to the zone (RFC 1035, section 5.1)
    return hosts


def _is_sentence(words: list[str]) -> bool:
    """True if other words than labels and numbers stand before the first host of a line."""
    return not all(map(_may_label, takewhile(lambda word: _host(word) is None, words)))


def _may_label(word: str) -> bool:
    """True if a word labels nameservers or DS records, or has no letters."""
    letters = _letters(word).strip("0123456789").lower()
    return letters == "" or letters in _HOST_LABELS


def _glue_entries(host: str, words: list[str]) -> Iterator[tuple[tuple[str, str], ...]]:
    others = [each for each in words if each.removesuffix(".").lower() != host]
    addresses = [each for each in others if _address(each)] or others
    ipv4 = [each for each in addresses if ":" not in each]
    ipv6 = [each for each in addresses if ":" in each]
    for one, other in zip_longest(ipv4, ipv6) if addresses else [("", "")]:
        entry = {"host": host, "ipv4": one, "ipv6": other}
        yield tuple((name, value) for name, value in entry.items() if value)


def _ds_of_record(words: list[str], fqdn: str) -> str | None:
    """Return a DS, DNSKEY, CDS or CDNSKEY record as the API takes it.

    Return None if it is below `fqdn`, or has no numbers. The owner is left out if it is `fqdn`. Another one
    stays, so that the API refuses it.
    """
    # The last one: before the record may be a label, such as `DS record:`.
    at = max(index for index, word in enumerate(words) if word.upper() in _DS_TYPES)
    rest = list(dropwhile(lambda word: not word.isdigit(), words[at + 1 :]))
    if not rest or _is_below(words[0], fqdn):
        return None
    value = _ds_of_words(rest) or " ".join(rest)
    owner = next((host for word in words[:at] if (host := _host(word))), None)
    return value if owner in (None, fqdn) else f"{owner} {words[at].upper().removeprefix('C')} {value}"


def _ds_of_words(words: list[str]) -> str | None:
    """Return the DS record or DNSKEY of a line such as `2371 13 - ECDSAP256SHA256 2 49FD…`, or None."""
    words = list(dropwhile(lambda word: not word.isdigit(), words))
    end = len(words)
    while end and _LONG_PART.fullmatch(words[end - 1]):
        end -= 1
    numbers = [word for word in words[:end] if word.isdigit()]
    if len(numbers) < 3:  # some are names, which otherwise stand beside their numbers
        numbers = [number for word in words[:end] if (number := _number(word))]
    if len(numbers) < 3 or end == len(words):
        return None
    # Before them may be a TTL, or the number of a list.
    return " ".join((*numbers[-3:], "".join(words[end:])))


def _records_of_labels(labelled: list[tuple[str, list[str]]]) -> Iterator[str]:
    """Yield the DS records of labels with their values, or the DNSKEYs of those without a digest.

    A repeated label begins another record.
    """
    records: list[dict[str, str]] = [{}]
    for label, words in labelled:
        if label in records[-1]:
            records.append({})
        if label in ("digest", "public key"):
            value = "".join(word for word in words if _LONG_PART.fullmatch(word))
        else:
            value = next((number for word in words if (number := _number(word))), "")
        if value:
            records[-1][label] = value
    for each in records:
        if all(part in each for part in _DS_PARTS):
            yield " ".join(each[part] for part in _DS_PARTS)
        elif all(part in each for part in _KEY_PARTS):
            yield f"{each['flags']} 3 {each['algorithm']} {each['public key']}"


def _split_at_labels(line: str) -> list[str]:
    """Return the parts of a line such as `Key tag: 2371 Algorithm: 13`."""
    words = line.split()
    parts: list[list[str]] = [[]]
    at = 0
    while at < len(words):
        label, count = _label_of(words[at : at + 2])
        these = words[at : at + max(1, count)]
        if label and parts[-1] and these[-1].endswith((":", "=")):
            parts.append([])
        parts[-1] += these
        at += len(these)
    return [" ".join(each) for each in parts] if len(parts) > 1 else [line]


def _label_of(words: list[str]) -> tuple[str | None, int]:
    """Return the label at the beginning of a line, and the number of its words."""
    for count in (2, 1):
        label = _LABELS.get(_letters("".join(words[:count])).lower())
        if label is not None:
            return label, count
    return None, 0


def _number(word: str) -> str | None:
    return word if word.isdigit() else _NUMBERS.get(_letters(word).upper())


def _letters(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "", text)


def _has_flags(line: str, flags: str) -> bool:
    """True if a line is a DNSKEY with these flags."""
    words = line.upper().split()
    at = words.index("DNSKEY") + 1 if "DNSKEY" in words else 0
    return words[at : at + 2] == [flags, "3"]


def _type_of(words: list[str]) -> str | None:
    """Return the type of the record in a line, or None. It is one of the first five words."""
    for index, word in enumerate(words[:5]):
        kind = word.upper()
        if kind in _TYPES and (kind != "A" or any(_address(each) for each in words[index + 1 : index + 3])):
            return kind
    return "directive" if words[0].startswith("$") else None


def _host(word: str) -> str | None:
    if "." not in word:
        return None
    try:
        return parse_host_name(word)
    except InvalidName:
        return None


def _has_comma_for_dot(word: str) -> bool:
    """True if a word is a host name with a comma typed for its last dot, and no list of hosts."""
    host, _, last = word.removesuffix(".").partition(",")
    return last.isalpha() and last.islower() and last != "auto" and _host(host) is not None


def _is_below(word: str, fqdn: str) -> bool:
    host = _host(word)
    return bool(host and fqdn and host != fqdn and is_at_or_below(host, fqdn))


def _is_label(word: str) -> bool:
    return re.fullmatch("[A-Za-z0-9_-]+", word) is not None


def _address(word: str) -> bool:
    if not word[:1].isalnum() and ":" not in word:
        return False
    try:
        parse_ipv6(word) if ":" in word else parse_ipv4(word)
    except InvalidAddress:
        return False
    return True


def _words(line: str) -> list[str]:
    """Return the words of a line without signs around them, and without the numbers of a list."""
    words = [found for word in re.split(r"[\s,;|]+", line) if (found := word.strip(_EDGES))]
    return [
        each.removesuffix(".")
        for each in words
        if each not in "-=" and not re.fullmatch(r"[0-9]{1,2}\.", each)
    ]


def _lines(text: str) -> list[str]:
    """Return the lines of a text that have words, without comments. Lines within parentheses are joined."""
    lines: list[list[str]] = []
    depth = 0
    for line in text[:CHARACTERS_MAX].splitlines()[:LINES_MAX]:
        kept = _without_comment(line).strip()
        if depth > 0:
            lines[-1].append(kept)
        elif _words(kept):
            lines.append([kept])
        depth = max(0, depth + kept.count("(") - kept.count(")")) if lines else 0
    return [" ".join(each).strip() for each in lines]


def _without_comment(line: str) -> str:
    """Return a line without its comment. A semicolon may also separate hosts."""
    if line.lstrip().startswith(("#", "//")):
        return ""
    kept, _, rest = line.partition(";")
    return line if kept.strip() and all(_host(word) for word in _words(rest)) else kept
