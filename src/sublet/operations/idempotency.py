"""`Idempotency-Key`: a repeated request takes effect once and gets the same answer.

One transaction claims the key, runs the verb and stores its outcome. A refusal rolls the transaction back,
which frees the key. While a request is running, a second request with its key is refused in the same process;
in another process the second request waits, and then gets the outcome of the first.
"""

import hashlib
import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec

from msgspec import Struct

from sublet.credits.model import Outcome
from sublet.db import PartT, Tx, write_parts
from sublet.errors import IdempotencyKeyReused, Unavailable
from sublet.operations.call import Answer, Call, StructT
from sublet.operations.idempotency_store import (
    KeyTaken,
    claim_key,
    find_outcome,
    key_in_use_refusal,
    store_outcome,
)
from sublet.restrictions import UNRESTRICTED, Restrictions

P = ParamSpec("P")
CLAIM_ATTEMPTS_MAX = 3
"""If another process commits the key during an attempt, the next attempt finds its outcome."""
PARTS_SECONDS_MAX = 15
"""The time after which a request begins no further part of a change. The other half of a request's limit
(`sublet.http.calls`) is for the part that runs then, and for `write_once`.
"""
REPLAYED = {"idempotent-replayed": "true"}


class WriteResult(Struct, frozen=True):
    """The outcome of a verb, and the status of its first answer.

    If `replayed`, an earlier request with the same key ran the verb.
    """

    outcome: Outcome
    status: int
    replayed: bool

    @property
    def headers(self) -> dict[str, str]:
        """The headers that mark a repeated answer."""
        return dict(REPLAYED) if self.replayed else {}

    def answer(self, body: StructT) -> Answer[StructT]:
        """Return the answer to the request that ran the verb, or to its repetition."""
        return Answer(body, self.headers, self.status)


def fingerprint(
    method: str,
    path: str,
    body: dict[str, Any],
    restrictions: Restrictions = UNRESTRICTED,
    account_id: int | None = None,
) -> str:
    """Return the SHA-256 (hex) of method, path and body. Spacing and order of members make no difference.

    The digest includes a token's restrictions to names and its organization, so a token can't get the outcome
    of a token with other rights.
    """
    request: list[Any] = [method, path, body]
    if not restrictions.allows_all_names:
        request += [restrictions.names, restrictions.domains]
    if account_id is not None:
        request.append({"account_id": account_id})
    canonical = json.dumps(request, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


async def write_once(
    call: Call[Any, Any],
    verb: Callable[Concatenate[Tx, P], Outcome],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> WriteResult:
    """Run a verb in a writing transaction, or return the outcome of an earlier request with the same key.

    Without a key, always run the verb.

    Raises:
        IdempotencyInProgress: a request with this key is running.
        IdempotencyKeyReused: the key was used for another request.
        Refusal: a refusal of the verb.
    """
    database = call.context.db
    key = call.idempotency_key
    if key is None:
        return WriteResult(await database.write(verb, *args, **kwargs), call.status, replayed=False)
    user_id = call.registrant.user.id

    def once(tx: Tx) -> WriteResult:
        stored = find_outcome(tx, user_id, key)
        if stored is not None:
            if stored.fingerprint != call.fingerprint:
                raise IdempotencyKeyReused(
                    "This form or Idempotency-Key was used for another change. Open the form again, or "
                    "give a new key."
                )
            return WriteResult(stored.outcome, stored.status, replayed=True)
        claim_key(tx, user_id, key, call.fingerprint, call.status)
        outcome = verb(tx, *args, **kwargs)
        store_outcome(tx, user_id, key, outcome)
        return WriteResult(outcome, call.status, replayed=False)

    running = call.context.running_keys
    if (user_id, key) in running:
        raise key_in_use_refusal()
    running.add((user_id, key))
    try:
        for _ in range(CLAIM_ATTEMPTS_MAX):
            with suppress(KeyTaken):
                return await database.write(once)
        raise key_in_use_refusal()
    finally:
        running.discard((user_id, key))


async def write_parts_before(
    call: Call[Any, Any],
    verb: Callable[Concatenate[Tx, P], PartT],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> list[PartT]:
    """Run the parts of a long change (`sublet.db.write_parts`) before `write_once` runs the rest.

    If the key was used, run none, because `write_once` then runs no verb.

    Raises:
        Unavailable: the parts take too long for one request. Those so far are done.
        Refusal: a refusal of the verb.
    """
    database, key = call.context.db, call.idempotency_key
    if key is not None and await database.read(find_outcome, call.registrant.user.id, key) is not None:
        return []
    done, stop_at = [], time.monotonic() + PARTS_SECONDS_MAX
    async for part in write_parts(database, verb, *args, **kwargs):
        done.append(part)
        if part.more and time.monotonic() > stop_at:
            raise Unavailable(
                f"This takes longer than {PARTS_SECONDS_MAX} seconds. It has begun, but isn't finished. Do "
                "the same again to go on.",
                retry_after_seconds=1,
            )
    return done
