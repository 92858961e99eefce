"""Conditional requests (RFC 9110, section 13): `ETag` and `If-None-Match` of a name or ticket, `If-Match` of its changes."""

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
    """True if `If-None-Match` names this tag, so that the answer is 304. The comparison is weak (section 13.1.2)."""
    listed = _tags(",".join(fields.getlist("if-none-match")))
    return listed == ["*"] or tag in [each.removeprefix("W/") for each in listed]


def is_match(if_match: str, tag: str) -> bool:
    """True if a field `If-Match` names this tag. The comparison is strong: a weak tag never matches (section 13.1.1)."""
    listed = _tags(if_match)
    return listed == ["*"] or tag in listed


def _tags(field: str) -> list[str]:
    # Tags of others may contain a comma. Ours don't, so the pieces of those match none.
    return [each.strip(" \t") for each in field.split(",")]


def only_if_match(
    call: Call[Any, Any],
    verb: Callable[Concatenate[Tx, P], Outcome],
    show: Callable[[Tx], msgspec.Struct],
    lock: Callable[[Tx], object] | None = None,
) -> Callable[Concatenate[Tx, P], Outcome]:
    """Return a verb that first compares `If-Match` with the tag of what GET answers, in its transaction; without the header, the verb.

    `show` returns the answer of GET, or raises its refusal. The verb, which refuses what GET doesn't show, then decides; if it succeeds
    (a restore from the trash), there was no tag to match. `lock` locks the users of a verb that locks more than the acting one.

    The returned verb raises, in this order:
        AccountSuspended: the user is suspended.
        PreconditionFailed: `If-Match` doesn't name the tag.
        Refusal: those of the verb.
    """
    if_match = call.if_match
    if if_match is None:
        return verb

    def checked(tx: Tx, /, *args: P.args, **kwargs: P.kwargs) -> Outcome:
        # Until the commit, so that no other change comes in between.
        lock(tx) if lock is not None else lock_holder(tx, call.actor())
        try:
            tag = entity_tag(msgspec.json.encode(show(tx)))
        except Refusal:
            verb(tx, *args, **kwargs)
            raise _failed() from None
        if not is_match(if_match, tag):
            raise _failed()
        return verb(tx, *args, **kwargs)

    return checked


def _failed() -> PreconditionFailed:
    return PreconditionFailed(
        "This has changed since the `ETag` that `If-Match` names. Look at it again, then send the change with its new `ETag`."
    )
