"""Conditional requests (RFC 9110, section 13): `ETag`, `If-None-Match` and `If-Match`."""

import hashlib
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

import msgspec
from starlette.datastructures import Headers

from sublet.accounts.find import lock_holder
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.errors import Refusal
from sublet.http.endpoints import Call
from sublet.http.errors import PreconditionFailed

P = ParamSpec("P")


def entity_tag(body: bytes) -> str:
    """Return the strong entity tag of an answer's body."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def is_not_modified(fields: Headers, tag: str) -> bool:
    """True if `If-None-Match` has this tag, so that the answer is 304. The comparison is weak (section 13.1.2)."""
    listed = _tags(",".join(fields.getlist("if-none-match")))
    return listed == ["*"] or tag in [each.removeprefix("W/") for each in listed]


def is_match(if_match: str, tag: str) -> bool:
    """True if `If-Match` has this tag. The comparison is strong, so a weak tag never matches (section 13.1.1)."""
    listed = _tags(if_match)
    return listed == ["*"] or tag in listed


def _tags(field: str) -> list[str]:
    # Splitting at every comma is safe. Our tags have none, and a piece of another tag lacks a quote, so it never equals one of ours.
    return [each.strip(" \t") for each in field.split(",")]


def only_if_match(
    call: Call[Any, Any],
    verb: Callable[Concatenate[Tx, P], Outcome],
    show: Callable[[Tx], msgspec.Struct],
    lock: Callable[[Tx], object] | None = None,
) -> Callable[Concatenate[Tx, P], Outcome]:
    """Return a verb that first compares `If-Match` with the current `ETag`, in the same transaction. Without the header, return `verb`.

    `show` returns the answer of GET, or raises its refusal. If `show` refuses, the verb runs, because its refusal says more. If the verb
    succeeds all the same (a restore from the trash), the request is refused, because no tag can match. `lock` is for a verb that locks
    more users than the acting user.

    The returned verb raises, in this order:
        AccountSuspended: the user is suspended.
        PreconditionFailed: `If-Match` doesn't name the tag.
        Refusal: a refusal of the verb.
    """
    if_match = call.if_match
    if if_match is None:
        return verb

    def checked(tx: Tx, /, *args: P.args, **kwargs: P.kwargs) -> Outcome:
        # Without the lock another transaction could change the resource between the check and the verb.
        lock(tx) if lock is not None else lock_holder(tx, call.actor())
        try:
            tag = entity_tag(msgspec.json.encode(show(tx)))
        except Refusal:
            verb(tx, *args, **kwargs)
            raise _precondition_refusal() from None
        if not is_match(if_match, tag):
            raise _precondition_refusal()
        return verb(tx, *args, **kwargs)

    return checked


def _precondition_refusal() -> PreconditionFailed:
    return PreconditionFailed(
        "The resource has changed: `If-Match` doesn't have the current `ETag`. Get the resource again, then send the change with the new `ETag`."
    )
