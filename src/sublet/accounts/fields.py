"""Check the fields of an account: e-mail address, name, reason, free quota (rules; no SQL)."""

from sublet.dns.names import InvalidName, parse_host_name, shown
from sublet.errors import FieldError

EMAIL_LENGTH_MAX = 254
"""A path has at most 256 octets, including two angle brackets (RFC 5321, section 4.5.3.1.3)."""
LOCAL_PART_LENGTH_MAX = 64
NAME_LENGTH_MAX = 200
REASON_LENGTH_MAX = 500


def normalise_email(text: str) -> str:
    """Return an e-mail address as it is stored: in lower case, without surrounding spaces."""
    return text.strip().lower()


def check_email(text: str) -> tuple[str, list[FieldError]]:
    """Return an address as it is stored, and the error in it if it is invalid.

    A valid address has one `@`, printable characters without spaces before it, a host name after it, and the lengths of RFC 5321. Quoted
    local parts are refused. Not checked: that the address receives mail.
    """
    email = normalise_email(text)
    local, at, domain = email.rpartition("@")
    problem = None
    if not at or not local or "@" in local:
        problem = f"`{shown(text)}` is not an e-mail address. Give an address such as name@example.net."
    elif not local.isprintable() or any(char.isspace() or char in '"(),:;<>[\\]' for char in local):
        problem = f"`{shown(text)}` has a character before the @ that is not allowed in an e-mail address. Remove it."
    elif len(email) > EMAIL_LENGTH_MAX or len(local) > LOCAL_PART_LENGTH_MAX:
        problem = f"An e-mail address has at most {EMAIL_LENGTH_MAX} characters, {LOCAL_PART_LENGTH_MAX} before the @. Give a shorter address."
    else:
        try:
            parse_host_name(domain)
        except InvalidName as error:
            problem = str(error)
    return email, [FieldError("email", "value_invalid", problem)] if problem else []


def check_text(
    field: str, text: str | None, *, length_max: int = NAME_LENGTH_MAX
) -> tuple[str, list[FieldError]]:
    """Return a line of text without surrounding spaces, and its error if it has one: `required`, `too_long` or `value_invalid`."""
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
    """Return the error in a user's own free quota, if it has one. None stands for the default quota of the settings."""
    if free_quota is None or 0 <= free_quota <= 1_000_000:
        return []
    return [FieldError("free_quota", "value_invalid", "Give a free quota of 0 to 1,000,000 names.")]
