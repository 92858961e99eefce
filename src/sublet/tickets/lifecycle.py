"""The rules of tickets, pure: statuses, the first priority, limits of texts (docs/spec-choices.md, "Tickets").

open ──staff──▶ answered ──user──▶ open      any ──close──▶ closed, which is final
"""

import unicodedata

from sublet.errors import Conflict, FieldError, TicketClosed

MESSAGES_MAX = 200
"""The number of messages, from any author, at which a ticket takes no more replies of its user. A ticket is read and shown whole."""
SUBJECT_CHARACTERS_MAX = 200
MESSAGE_CHARACTERS_MAX = 20_000
AUTHOR_NAME_CHARACTERS_MAX = 200
_STATUS_AFTER = {"user": "open", "staff": "answered"}
"""The status after a message, by its author."""

# Cc: control characters; Cs: lone surrogates, which have no UTF-8; Zl, Zp: line and paragraph separators.
_NOT_IN_A_LINE = frozenset({"Cc", "Cs", "Zl", "Zp"})


def refuse_closed(status: str) -> None:
    """Raise `TicketClosed` if a ticket is closed (spec, part 3, rule 3)."""
    if status == "closed":
        raise TicketClosed("This ticket is closed; open a new one, which may refer to it by its number.")


def refuse_full(messages: int) -> None:
    """Raise `Conflict` if a ticket has `MESSAGES_MAX` messages (docs/spec-choices.md, part 8)."""
    if messages >= MESSAGES_MAX:
        raise Conflict(
            f"This ticket has {messages} messages; with {MESSAGES_MAX} it takes no more replies."
            " Open a new one, which may refer to it by its number."
        )


def status_after_message(status: str, author_type: str) -> str:
    """Return the status of a ticket after a message of a user or of staff.

    Raises:
        TicketClosed: it is closed, and takes no message (spec, part 3, rule 3).
    """
    refuse_closed(status)
    return _STATUS_AFTER[author_type]


def first_priority(ticket_type: str) -> str:
    """Return the priority of a new ticket of this type: high for abuse, else normal."""
    return "high" if ticket_type == "abuse" else "normal"


def check_line(field: str, text: str | None, characters_max: int) -> list[FieldError]:
    """Return the errors in a text of one line (a subject, a name): `required`, `too_long`, `value_invalid`.

    The limit counts Unicode code points as sent. Line breaks and control characters are `value_invalid`, because a subject becomes
    the header of a mail and a row on a terminal.
    """
    errors = _check_length(field, text, characters_max)
    if text is not None and any(unicodedata.category(char) in _NOT_IN_A_LINE for char in text):
        message = "This is one line. Remove line breaks and control characters."
        errors.append(FieldError(field, "value_invalid", message))
    return errors


def check_message(text: str | None) -> list[FieldError]:
    """Return the errors in a message, which is stored as sent: `required`, `too_long` (20,000 code points), `value_invalid`.

    NUL and lone surrogates, which can't be stored, are `value_invalid`. Not checked: that Markdown is well-formed or harmless. A
    client that renders it must escape it.
    """
    errors = _check_length("message", text, MESSAGE_CHARACTERS_MAX)
    if text is not None and any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text):
        sentence = "The message has a NUL or half of a surrogate pair. Remove it."
        errors.append(FieldError("message", "value_invalid", sentence))
    return errors


def _check_length(field: str, text: str | None, characters_max: int) -> list[FieldError]:
    if text is None or not text.strip():
        return [FieldError(field, "required", "This is missing or blank. Write something.")]
    if len(text) > characters_max:
        message = f"This has {len(text):,} characters. Shorten it to {characters_max:,}."
        return [FieldError(field, "too_long", message)]
    return []
