"""Check the fields of an account: e-mail address, name, reason, free quota (rules; no SQL)."""

from sublet.accounts.mailbox import InvalidAddress, canonical_address
from sublet.dns.names import shown
from sublet.errors import FieldError

NAME_LENGTH_MAX = 200
REASON_LENGTH_MAX = 500


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
    """Return an address in its canonical form (`mailbox.canonical_address`), and the error in it if it is
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
    if not line.isprintable():
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
