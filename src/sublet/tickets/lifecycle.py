"""The rules of tickets: statuses, default priorities, limits of texts (docs/spec-choices.md, "Tickets").

open ──staff──▶ answered ──user──▶ open      any ──close──▶ closed (final)
"""

import unicodedata

from sublet.errors import Conflict, FieldError, TicketClosed

MESSAGES_MAX = 200
"""A user can't reply to a ticket with this many messages. There is a limit because a ticket is always read as
a whole.
"""
SUBJECT_CHARACTERS_MAX = 200
MESSAGE_CHARACTERS_MAX = 20_000
AUTHOR_NAME_CHARACTERS_MAX = 200
_STATUS_AFTER = {"user": "open", "staff": "answered"}
"""A ticket's status after a message, by the message's `author_type`."""

# Cc: control characters; Cs: lone surrogates, which have no UTF-8; Zl, Zp: line and paragraph separators.
_NOT_IN_A_LINE = frozenset({"Cc", "Cs", "Zl", "Zp"})


def refuse_closed(status: str) -> None:
    """Raise `TicketClosed` if a ticket is closed (spec, part 3, rule 3)."""
    if status == "closed":
        raise TicketClosed(
            "This ticket is closed. Open a new ticket, and mention the number of this ticket in it."
        )


def refuse_full(message_count: int) -> None:
    """Raise `Conflict` if a ticket has `MESSAGES_MAX` messages (docs/spec-choices.md, part 8)."""
    if message_count >= MESSAGES_MAX:
        raise Conflict(
            f"This ticket has {message_count} messages. The maximum for replies is {MESSAGES_MAX}."
            " Open a new ticket, and mention the number of this ticket in it."
        )


def status_after_message(status: str, author_type: str) -> str:
    """Return the status of a ticket after a message from its user or from staff.

    Raises:
        TicketClosed: the ticket is closed (spec, part 3, rule 3).
    """
    refuse_closed(status)
    return _STATUS_AFTER[author_type]


def default_priority(ticket_type: str) -> str:
    """Return the priority of a new ticket of this type: high for abuse, otherwise normal."""
    return "high" if ticket_type == "abuse" else "normal"


def check_line(field: str, text: str | None, characters_max: int) -> list[FieldError]:
    """Return the errors in a text of one line (a subject, a name): `required`, `too_long`, `value_invalid`.

    The limit counts Unicode code points. Line breaks and control characters are `value_invalid`, because the
    text is shown in mail headers and on terminals.
    """
    errors = _check_length(field, text, characters_max)
    if text is not None and any(unicodedata.category(char) in _NOT_IN_A_LINE for char in text):
        message = "This must be one line. Remove line breaks and control characters."
        errors.append(FieldError(field, "value_invalid", message))
    return errors


def check_message(text: str | None) -> list[FieldError]:
    """Return the errors in a message: `required`, `too_long` (20,000 code points), `value_invalid`.

    The message is stored unchanged.

    NUL and lone surrogates are `value_invalid`, because the database can't store them. Not checked: whether
    Markdown is well-formed or harmless. Clients that render Markdown must escape HTML.
    """
    errors = _check_length("message", text, MESSAGE_CHARACTERS_MAX)
    if text is not None and any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text):
        sentence = "The message contains a NUL character or half of a surrogate pair. Remove this character."
        errors.append(FieldError("message", "value_invalid", sentence))
    return errors


def _check_length(field: str, text: str | None, characters_max: int) -> list[FieldError]:
    if text is None or not text.strip():
        return [FieldError(field, "required", "This is missing or blank. Give a text.")]
    if len(text) > characters_max:
        message = f"This has {len(text):,} characters. Shorten it to {characters_max:,}."
        return [FieldError(field, "too_long", message)]
    return []
