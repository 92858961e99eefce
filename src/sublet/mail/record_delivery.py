"""Record what came of sending a mail."""

import random

from sublet.db import Tx
from sublet.mail import store
from sublet.mail.attempts import back_off, is_given_up
from sublet.mail.model import Failure, Mail


def record_delivery(tx: Tx, mail: Mail, failure: Failure | None, *, delivers: bool = True) -> str:
    """Record that a claimed mail was sent (no failure), or when it is tried again; return what came of it.

    That is `sent`, or `logged` where the transport delivers nothing; `failed` or `given_up`. A failure counts only while no
    newer attempt has begun, and the operator has not asked for one; that it was sent always counts.
    """
    if failure is None and not delivers:
        store.record_logged(tx, mail.id)
        return "logged"
    if failure is None:
        store.record_sent(tx, mail.id)
        return "sent"
    given_up = is_given_up(mail.created_at, tx.now, permanent=failure.permanent)
    again_at = None if given_up else tx.now + back_off(mail.attempts, random.random())  # noqa: S311 - jitter, no secret
    store.record_failure(tx, mail, failure.sentence, again_at)
    return "given_up" if given_up else "failed"
