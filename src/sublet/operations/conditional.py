"""Conditional requests (RFC 9110, section 13): `ETag`, `If-None-Match` and `If-Match`.

A tag has two parts: the first changes with the members that requests change, the second with the whole
answer.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from typing import Any, Concatenate, ParamSpec

import msgspec

from sublet.accounts.find import lock_holder
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.errors import PreconditionFailed, Refusal
from sublet.operations.call import Call

P = ParamSpec("P")


_TAG = re.compile(r'"([0-9a-f]{16})-[0-9a-f]{16}"')


def entity_tag(answer: msgspec.Struct, encoded: bytes | None = None) -> str:
    """Return the strong entity tag of an answer with one object, or with `changed_by_requests` of its own.

    `encoded` is the answer as JSON, if the caller has it.
    """
    shown: Any = answer
    if not shown.changed_by_requests:
        (shown,) = (getattr(answer, name) for name in answer.__struct_fields__ if name != "ok")
    edited = [getattr(shown, name) for name in shown.changed_by_requests]
    whole = msgspec.json.encode(answer) if encoded is None else encoded
    return f'"{_digest(msgspec.json.encode(edited))}-{_digest(whole)}"'


def _digest(encoded: bytes) -> str:
    return hashlib.sha256(encoded).hexdigest()[:16]


def is_not_modified(if_none_match: Iterable[str], tag: str) -> bool:
    """True if the headers `If-None-Match` have this tag, so that the answer is 304.

    The comparison is weak (section 13.1.2).
    """
    listed = _tags(",".join(if_none_match))
    return listed == ["*"] or tag.removeprefix("W/") in [each.removeprefix("W/") for each in listed]


def is_match(if_match: str, tag: str) -> bool:
    """True if `If-Match` has a tag with the same first part.

    The comparison is strong, so a weak tag never matches (section 13.1.1).

    The second part isn't compared: a publication, or a date that passes, must not refuse a change that was
    made of what the client saw.
    """
    listed = _tags(if_match)
    return listed == ["*"] or _edited_part(tag) in map(_edited_part, listed)


def _edited_part(tag: str) -> str:
    """Return the first part of a tag; of another text, the whole text."""
    found = _TAG.fullmatch(tag)
    return found[1] if found else tag


def _tags(field: str) -> list[str]:
    # Splitting at every comma is safe. Our tags have none, and a piece of another tag lacks a quote, so it
    # never equals one of ours.
    return [each.strip(" \t") for each in field.split(",")]


def only_if_match(
    call: Call[Any, Any],
    verb: Callable[Concatenate[Tx, P], Outcome],
    show: Callable[[Tx], msgspec.Struct],
    lock: Callable[[Tx], object] | None = None,
) -> Callable[Concatenate[Tx, P], Outcome]:
    """Return a verb that first compares `If-Match` with the current `ETag`, in the same transaction.

    Without the header, return `verb`.

    `show` returns the answer of GET, or raises its refusal. If `show` refuses, the verb runs, because its
    refusal says more. If the verb succeeds all the same (a restore from the trash), the request is refused,
    because no tag can match. `lock` is for a verb that locks more users than the acting user.

    The returned verb raises, in this order:
        AccountSuspended: the user is suspended.
        PreconditionFailed: `If-Match` names no tag with the current first part.
        Refusal: a refusal of the verb.
    """
    if_match = call.if_match
    if if_match is None:
        return verb

    def checked(tx: Tx, /, *args: P.args, **kwargs: P.kwargs) -> Outcome:
        # Without the lock another transaction could change the resource between the check and the verb.
        lock(tx) if lock is not None else lock_holder(tx, call.actor())
        try:
            tag = entity_tag(show(tx))
        except Refusal:
            verb(tx, *args, **kwargs)
            raise _precondition_refusal() from None
        if not is_match(if_match, tag):
            raise _precondition_refusal()
        return verb(tx, *args, **kwargs)

    return checked


def _precondition_refusal() -> PreconditionFailed:
    return PreconditionFailed(
        "This has changed since you read it. Read it again, then make the change if it still applies."
    )
