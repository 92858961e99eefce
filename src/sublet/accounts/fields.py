"""Check the texts and the e-mail address of an account (rules; no SQL)."""

import unicodedata

from sublet.dns.names import InvalidName, is_printable, map_text, parse_host_name, parse_label, shown
from sublet.errors import FieldError

EMAIL_LENGTH_MAX = 254
"""A path has at most 256 octets, including two angle brackets (RFC 5321, section 4.5.3.1.3)."""
LOCAL_PART_LENGTH_MAX = 64
_TOO_LONG = (
    f"An e-mail address has at most {EMAIL_LENGTH_MAX} characters, {LOCAL_PART_LENGTH_MAX} before the @. "
    "Give a shorter address."
)


NAME_LENGTH_MAX = 200
REASON_LENGTH_MAX = 500


class InvalidAddress(ValueError):  # noqa: N818 - named like `InvalidName`
    """The text is not an e-mail address; `str()` is a message for users."""


def canonical_address(text: str) -> str:
    r"""Return an address in the form in which it is stored, compared, limited and given to the SMTP server.

    The domain is in A-labels after the mapping of UTS 46, without the final dot (`parse_host_name`). The part
    before the `@` is in lower case and in Unicode's form NFC (RFC 6532, section 3.1). Surrounding spaces are
    removed. Dots and tags (`+shop`) before the `@` are kept, because they distinguish mailboxes at some
    providers.

    Not checked: that the address receives mail. Quoted local parts are refused, and those with `=?`, which
    programs decode in the header of a mail (RFC 2047).

    Raises:
        InvalidAddress: no `@`, or several; an unprintable character, a space, `=?` or one of `"(),:;<>[\]`
            before the `@`; a domain that is not a host name; more than 254 characters, or 64 before the `@`.
    """
    local, at, domain = text.strip().rpartition("@")
    if not at or not local or "@" in local:
        raise InvalidAddress(
            f"`{shown(text)}` is not an e-mail address. Give an address such as name@example.net."
        )
    if len(local) > EMAIL_LENGTH_MAX:  # checked before the normalization, whose work grows with the length
        raise InvalidAddress(_TOO_LONG)
    local = unicodedata.normalize("NFC", local.lower())
    is_allowed = local.isprintable() and "=?" not in local
    if not is_allowed or any(char.isspace() or char in '"(),:;<>[\\]' for char in local):
        raise InvalidAddress(
            f"`{shown(text)}` has a character before the @ that is not allowed in an e-mail address. "
            "Remove it."
        )
    try:
        address = f"{local}@{parse_host_name(domain)}"
    except InvalidName as error:
        if "." not in domain:
            raise InvalidAddress(
                f"`{shown(text)}` has no full domain after the @. Give an address such as name@example.net."
            ) from error
        raise InvalidAddress(str(error)) from error
    if len(address) > EMAIL_LENGTH_MAX or len(local) > LOCAL_PART_LENGTH_MAX:
        raise InvalidAddress(_TOO_LONG)
    return address


def canonical_part(text: str) -> str:
    """Return a part of an address in the form of stored addresses, to search for it: whole labels after the
    `@` in A-labels, without a final dot.

    A text without an `@` counts as a part of the domain if it can be one. Any other text is returned in lower
    case.
    """
    local, at, domain = text.strip().lower().rpartition("@")
    try:
        labels = map_text(domain).rstrip(".").split(".")
    except InvalidName:
        return text.strip().lower()
    return unicodedata.normalize("NFC", local) + at + ".".join(map(_canonical_label, labels))


def _canonical_label(text: str) -> str:
    try:
        return parse_label(text)
    except InvalidName:
        return text


def normalise_email(text: str) -> str:
    """Return the canonical form of an e-mail address.

    A text that is no address is returned in lower case, without surrounding spaces.

    Used to look up what an operator or client names: `organization:12`, the text in place of an address, is
    found too.
    """
    try:
        return canonical_address(text)
    except InvalidAddress:
        return text.strip().lower()


def check_email(text: str) -> tuple[str, list[FieldError]]:
    """Return an address in its canonical form (`canonical_address`), and the error in it if it is
    invalid.
    """
    try:
        return canonical_address(text), []
    except InvalidAddress as error:
        return normalise_email(text), [FieldError("email", "value_invalid", str(error))]


def check_text(
    field: str, text: str | None, *, length_max: int = NAME_LENGTH_MAX
) -> tuple[str, list[FieldError]]:
    """Return a line of text without surrounding spaces, and its error if it has one: `required`, `too_long`
    or `value_invalid`.
    """
    line = (text or "").strip()
    if not line:
        return line, [FieldError(field, "required", "Give a text that is not blank.")]
    if len(line) > length_max:
        message = f"The text has {len(line):,} characters. Give at most {length_max}."
        return line, [FieldError(field, "too_long", message)]
    if not is_printable(line):
        message = f"`{shown(line)}` has characters that can't be printed. Remove them."
        return line, [FieldError(field, "value_invalid", message)]
    return line, []


def check_reason(reason: str | None, *, required: bool = False) -> tuple[str | None, list[FieldError]]:
    """Return the reason for an operator's change, or None, and its error if it has one."""
    if reason is None and not required:
        return None, []
    return check_text("reason", reason, length_max=REASON_LENGTH_MAX)


def check_free_quota(free_quota: int | None) -> list[FieldError]:
    """Return the error in a user's own free quota, if it has one.

    None stands for the default quota of the settings.
    """
    if free_quota is None or 0 <= free_quota <= 1_000_000:
        return []
    return [FieldError("free_quota", "value_invalid", "Give a free quota of 0 to 1,000,000 names.")]
