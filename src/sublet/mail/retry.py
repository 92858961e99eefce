"""Send a mail now instead of at its next attempt, one that was logged or given up too (the operator's `sublet mail retry`)."""

from sublet import audit
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import Conflict, NotFound
from sublet.mail import store
from sublet.mail.model import Mail


def retry(tx: Tx, actor: Actor, mail_id: int) -> Mail:
    """Make a mail due now. One that is being sent at this moment may arrive twice.

    Raises, in this order:
        NotFound: there is no such mail.
        Conflict: it was sent already.
    """
    mail = store.lock_mail(tx, mail_id)
    if mail is None:
        raise NotFound(f"There is no mail {mail_id}. See `sublet mail list`.")
    if mail.sent_at is not None:
        raise Conflict(
            f"The mail {mail_id} was sent already, at {mail.sent_at:%Y-%m-%d %H:%M} UTC. No action needed."
        )
    store.set_due(tx, mail.id)
    audit.record(
        tx,
        actor,
        "mail.retry",
        "mail",
        mail.id,
        before={"attempts": mail.attempts, "given_up": mail.given_up_at is not None},
    )
    found = store.find_mail(tx, mail.id)
    assert found is not None  # noqa: S101 - just locked
    return found
