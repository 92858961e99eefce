"""Parse labels and host names, in all the forms that people may type, into the canonical form.

In all of Sublet the canonical form is lower-case A-labels (RFC 5890, section 2.3.2.1) without the final dot.
All names in DNS messages come from one of the three parsers in this file.
"""

import ipaddress
import re
from typing import Final

import idna

INPUT_CHARACTERS_MAX: Final = 1000
"""The maximum length of a text. Longer texts are refused before IDNA, whose work grows with the length."""

NAME_OCTETS_MAX: Final = 253
"""The maximum length of a name in text without the final dot: 255 octets on the wire
(RFC 1035, section 3.1).
"""

LABEL_OCTETS_MAX: Final = 63
"""The maximum length of a label (RFC 1035, section 2.3.4)."""

_NAMESERVER_LABEL: Final = re.compile(r"ns[0-9]*")
_MAPPED_ALREADY: Final = re.compile(r"[a-z0-9.-]+")
"""Text that the mapping of UTS 46 doesn't change."""
_NAMED_MAX: Final = 8
"""The maximum number of wrong characters that a refusal names."""
_WORDS_OF_CHARACTERS: Final = {" ": "a space", "\n": "a line break", "\r": "a line break", "\0": "a NUL"}
_ASCII_OF_NAMES: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.")

_RFC_2142_MAILBOXES: Final = frozenset(
    {
        # Section 3, business.
        *("info", "marketing", "sales", "support"),
        # Section 4, network operations.
        *("abuse", "noc", "security"),
        # Section 5, services.
        *("postmaster", "hostmaster", "usenet", "news", "webmaster", "www", "uucp", "ftp"),
    }
)

# Software trusts these labels without configuration.
_PROTOCOL_LABELS: Final = frozenset(
    {
        "www",  # browsers and people take it for the platform domain's own site
        "mail",  # taken for the platform domain's own mail server
        "wpad",  # browsers fetch their proxy settings from it
        "isatap",  # hosts look for their IPv6 router under it (RFC 5214)
        "autodiscover",  # Outlook sends passwords of mailboxes at the platform domain to it
        "autoconfig",  # mail programs fetch the settings of mailboxes at the platform domain from it
        *("imap", "pop", "pop3", "smtp"),  # without autoconfiguration, mail programs guess these and log in
        "mta-sts",  # mail servers fetch the platform domain's policy from it (RFC 8461)
        "openpgpkey",  # mail programs fetch the encryption keys of mailboxes at the platform domain from it
        "enterpriseenrollment",  # Windows devices of users at the platform domain let it manage them
        "enterpriseregistration",  # Windows devices of users at the platform domain register with it
        "lyncdiscover",  # Skype for Business clients of users at the platform domain sign in through it
        "localhost",  # software takes it for the machine itself (RFC 6761)
        # If the hosts file lacks the next two names, a resolver appends the search domains to them.
        "localdomain",  # software takes it for the machine's own domain
        "broadcasthost",  # software takes it for the broadcast address of the network
    }
)

_TRUSTED_LABELS: Final = frozenset(
    {
        *("account", "accounts", "auth", "login", "logon", "oauth", "password"),
        *("secure", "signin", "signup", "sso", "verify"),
        *("bank", "banking", "billing", "checkout", "pay", "payment", "payments", "wallet"),
        *("admin", "administrator", "email", "helpdesk", "root", "sysadmin", "webmail"),
    }
)
"""People trust these names as the platform domain's own, and sign in, pay or ask for help under them."""

RESERVED_LABELS: Final = _RFC_2142_MAILBOXES | _PROTOCOL_LABELS | _TRUSTED_LABELS
"""The labels that `is_reserved` reserves, except `ns` with digits, and labels with
hyphens in places 3 and 4.
"""


_JOINERS: Final = {0x200C: None, 0x200D: None}


class InvalidName(ValueError):  # noqa: N818 - named like the classes in sublet.errors
    """The text is not a name of the required kind; `str()` is a message for users."""


def shown(text: str) -> str:
    """Return a text in a form for messages: at most 80 characters, with the code points of unprintable
    characters.
    """
    visible = "".join(char if char.isprintable() else f"<U+{ord(char):04X}>" for char in text[:81])
    return visible if len(visible) <= 80 else visible[:79] + "…"


def is_printable(text: str) -> bool:
    """True if a text has only printable characters, and joiners, without which people can't write Persian or
    Sinhala.
    """
    return text.translate(_JOINERS).isprintable()


def parse_label(text: str) -> str:
    """Return a label as a canonical A-label.

    Applies IDNA 2008 (RFC 5891) after the non-transitional mapping of UTS 46, with the STD 3 rules. Not
    checked: the minimum length, and that the label isn't reserved (`is_reserved`, also for hyphens in places
    3 and 4).

    Raises:
        InvalidName: a dot, empty, over 1,000 characters, a character that no name has, only invisible
            characters, a hyphen at an end, over 63 octets, refused by IDNA, an `xn--` label that is not the
            encoding of a U-label.
    """
    if "." in text[:INPUT_CHARACTERS_MAX]:
        raise InvalidName(f"`{shown(text)}` has a dot. Give the label alone, without the domain.")
    return _to_a_label(map_part(text), strict=True)


def map_part(text: str) -> str:
    """Return a part of a label after the mapping of UTS 46, as in `parse_label`.

    Not checked: that IDNA allows the part in a label.

    Raises:
        InvalidName: empty, over 1,000 characters, a character that no name has, only invisible characters, a
            dot.
    """
    mapped = map_text(text)
    if "." in mapped:
        raise InvalidName(f"`{shown(text)}` has a dot. Give the label alone, without the domain.")
    return mapped


def map_text(text: str) -> str:
    """Return a part of a name after the mapping of UTS 46: lower case, full-width forms and ideographic dots
    as ASCII.

    Raises:
        InvalidName: empty, over 1,000 characters, a character that no name has, only invisible characters.
    """
    if not text:
        raise InvalidName("The name is empty. Give a name.")
    if len(text) > INPUT_CHARACTERS_MAX:
        raise InvalidName(
            f"`{shown(text)}` is too long for a name: it has {len(text)} characters. Give a shorter one."
        )
    if _MAPPED_ALREADY.fullmatch(text):  # a fast test, true for nearly all names
        return text
    _refuse_foreign_characters(text, text)
    try:
        mapped = idna.uts46_remap(text, std3_rules=True, transitional=False)
    except ValueError as error:
        raise _refused_by_idna(text, error) from None
    _refuse_foreign_characters(mapped, text)  # UTS 46 maps a full-width @, for example, to ASCII
    if not mapped:
        raise InvalidName("The name has only invisible characters. Give letters, digits or hyphens.")
    return mapped


def parse_domain_name(text: str) -> str:
    """Return the name of a platform domain or subdomain in canonical form.

    Raises:
        InvalidName: for the reasons of `parse_host_name`, or a label starts with `xn--` and is not an A-label
            by IDNA 2008.
    """
    return _parse_name(text, strict=True)


def parse_host_name(text: str) -> str:
    """Return the name of a nameserver in canonical form (RFC 1123, section 2.1); one final dot is accepted
    and removed.

    Unicode text gets the mapping of UTS 46, as in `parse_label`. ASCII labels that start with `xn--` are
    accepted unchanged, because names from before IDNA 2008, for example with emoji, exist and resolve. Not
    checked: that the name exists.

    Raises:
        InvalidName: empty, over 1,000 characters, an IP address, a character that no host name has (such as
            underscore, `*`, backslash, `$`, `@`, space, newline), an empty label, a hyphen at an end of a
            label, a label over 63 octets, refused by IDNA, fewer than two labels, a last label of digits
            alone, over 253 octets.
    """
    return _parse_name(text, strict=False)


def is_reserved(label: str) -> bool:
    """True if a canonical label is reserved under all platform domains.

    These labels are reserved: labels with a special meaning in protocols or browsers, `ns` with or without
    digits, the mailboxes of RFC 2142, labels under which people sign in or pay, and labels with hyphens in
    places 3 and 4 that are not A-labels (for future encodings, RFC 5890, section 2.3.1). Not checked: the
    operator's lists.
    """
    return (
        label in RESERVED_LABELS
        or _NAMESERVER_LABEL.fullmatch(label) is not None
        or (label[2:4] == "--" and not is_idn(label))
    )


def is_below(name: str, ancestor: str) -> bool:
    """True if a canonical name is below another one, and not equal."""
    return name.endswith("." + ancestor)


def is_at_or_below(name: str, ancestor: str) -> bool:
    """True if a canonical name is equal to another one or below it."""
    return name == ancestor or is_below(name, ancestor)


def ancestors(name: str) -> tuple[str, ...]:
    """Return the names above a canonical name, nearest first, without the root: `a.b.c` gives `b.c`, `c`."""
    labels = name.split(".")
    return tuple(".".join(labels[index:]) for index in range(1, len(labels)))


def is_idn(label: str) -> bool:
    """True if a canonical label starts with `xn--`.

    Not checked: that it is an A-label (see `parse_host_name`).
    """
    return label.startswith("xn--")


def to_unicode(name: str) -> str:
    """Return a canonical name in Unicode: A-labels as U-labels, all other labels (fake A-labels too)
    unchanged.
    """
    return ".".join(_to_u_label(label) if is_idn(label) else label for label in name.split("."))


def owner_key(name: str) -> str:
    """Return the labels reversed: `a.example.test` gives `test.example.a`.

    In byte order the keys below a name are one range: from `key + "."` to `key + "/"`, exclusive.
    """
    return ".".join(reversed(name.split(".")))


def _parse_name(text: str, *, strict: bool) -> str:
    if _is_address(text):
        raise InvalidName(f"`{shown(text)}` is an address. Give the name of the host.")
    mapped = map_text(text)
    labels = mapped.removesuffix(".").split(".")
    if not all(labels):
        raise InvalidName(
            f"`{shown(text)}` has an empty label. Remove the dot at its start, or one of two in a row."
        )
    name = ""
    for label in labels:
        name += ("." if name else "") + _to_a_label(label, strict=strict)
        if len(name) > NAME_OCTETS_MAX:  # checked in the loop, because IDNA is slow
            raise InvalidName(
                f"`{shown(text)}` has more than {NAME_OCTETS_MAX} octets in the DNS. Give a shorter name."
            )
    if len(labels) < 2:
        raise InvalidName(
            f"`{shown(text)}` is a single label. Give a full name such as `{shown(labels[0])}.example.net`."
        )
    if labels[-1].isdigit():
        raise InvalidName(f"`{shown(text)}` ends in a label of digits, like an address. Give a full name.")
    return name


def _is_address(text: str) -> bool:
    bare = text[:100].strip().removeprefix("[").removesuffix("]")
    if ":" not in bare and not bare[-1:].isdigit():  # a fast test, true for nearly all names
        return False
    try:
        ipaddress.ip_address(bare)
    except ValueError:
        return False
    return True


def _refuse_foreign_characters(text: str, typed: str) -> None:
    foreign = {
        _WORDS_OF_CHARACTERS.get(char, f"`{shown(char)}`"): None
        for char in text
        if "\ud800" <= char <= "\udfff" or (char.isascii() and char not in _ASCII_OF_NAMES)
    }
    if foreign:
        named = ", ".join(list(foreign)[:_NAMED_MAX])
        raise InvalidName(f"`{shown(typed)}` contains {named}. Use letters, digits and hyphens.")


def _to_a_label(mapped: str, *, strict: bool) -> str:
    if mapped.startswith("-") or mapped.endswith("-"):
        raise InvalidName(f"`{shown(mapped)}` starts or ends with a hyphen. Remove the hyphen.")
    if len(mapped) > LABEL_OCTETS_MAX:  # checked before IDNA, because the work of Punycode is quadratic
        raise InvalidName(
            f"`{shown(mapped)}` has {len(mapped)} octets or more. Give a label of at most {LABEL_OCTETS_MAX}."
        )
    if mapped.isascii() and not (strict and is_idn(mapped)):
        return mapped
    try:
        # Also refuses fake A-labels, which are not the encoding of the label that they decode to (RFC 5890,
        # section 2.3.2.1).
        return idna.alabel(mapped).decode("ascii")
    except ValueError as error:
        raise _refused_by_idna(mapped, error) from None


def _to_u_label(label: str) -> str:
    try:
        return idna.ulabel(label)
    except ValueError:
        return label


def _refused_by_idna(text: str, error: ValueError) -> InvalidName:
    return InvalidName(
        f"`{shown(text)}` is refused by IDNA 2008: {shown(str(error).rstrip('.'))}. Check the spelling."
    )
