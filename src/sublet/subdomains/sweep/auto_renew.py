"""Renew a subdomain automatically, for the sweep (docs/spec-choices.md, "Automatic renewal")."""

from sublet import audit
from sublet.accounts.model import User
from sublet.audit import SYSTEM
from sublet.counted import counted
from sublet.credits.model import Payable
from sublet.db import Tx
from sublet.errors import PriceChanged, Refusal
from sublet.mail.letter import Message, name_page, render
from sublet.mail.outbox import enqueue
from sublet.subdomains.find import reread
from sublet.subdomains.lifecycle import renewal_opens_at
from sublet.subdomains.model import Subdomain
from sublet.subdomains.renew import extend
from sublet.subdomains.store import update_subdomain
from sublet.subdomains.sweep import store

ACCOUNT_SUSPENDED = "The account is suspended."


def auto_renew(tx: Tx, user: User, subdomain: Subdomain) -> bool:
    """Renew a name for at most its ceiling.

    Return True on success. Store the result, and a sentence about it for the user.

    Repeated failures for the same reason in one renewal window cause one mail. Users who turned off reminders
    get the mails too, because they are about money. Not checked: the date of the attempt
    (`lifecycle.auto_renew_at`).
    """
    update_subdomain(tx, subdomain.id, auto_renew_tried_at=tx.now, updated_at=subdomain.updated_at)
    why = ACCOUNT_SUSPENDED
    if user.suspended_at is None:
        payable = Payable(confirm=True, max_credits=subdomain.auto_renew_max_credits)
        try:
            with tx.savepoint():
                outcome = extend(tx, SYSTEM, user, subdomain, payable, action="renew", automatic=True)
        except PriceChanged as refusal:
            why = (
                f"It would cost {counted(refusal.quote.price, 'credit')}, and the ceiling is "
                f"{subdomain.auto_renew_max_credits}."
            )
        except Refusal as refusal:
            why = refusal.message
        else:
            _record_success(tx, user, reread(tx, subdomain), outcome.charged_credits)
            return True
    _record_failure(tx, user, subdomain, why)
    return False


def _record_success(tx: Tx, user: User, subdomain: Subdomain, charged_credits: int) -> None:
    message = render(
        "name_renewed",
        name=user.name,
        fqdn=subdomain.fqdn,
        charged_credits=charged_credits,
        expires_at=subdomain.expires_at,
    )
    mail_id = _enqueue(tx, user, subdomain, message)
    detail = f"Renewed for {counted(charged_credits, 'credit')} until {subdomain.expires_at:%Y-%m-%d}."
    store.insert_milestone(tx, subdomain.id, "auto_renewed", tx.now, detail=detail, mail_id=mail_id)


def _record_failure(tx: Tx, user: User, subdomain: Subdomain, why: str) -> None:
    opened_at = renewal_opens_at(subdomain)
    assert opened_at is not None  # noqa: S101 - names that only the operator renews have no automatic renewal
    is_mailed = any(
        each.mail_id is not None and each.detail == why and each.created_at >= opened_at
        for each in store.list_milestones(tx, subdomain.id)
    )
    mail_id = None
    if not is_mailed:
        message = render(
            "name_not_renewed",
            name=user.name,
            fqdn=subdomain.fqdn,
            why=why,
            has_expired=subdomain.expires_at <= tx.now,
            expires_at=subdomain.expires_at,
            by_operator=user.suspended_at is not None,
        )
        mail_id = _enqueue(tx, user, subdomain, message)
    store.insert_milestone(tx, subdomain.id, "auto_renew_failed", tx.now, detail=why, mail_id=mail_id)
    audit.record(tx, SYSTEM, "subdomain.auto_renew_failed", subdomain.id, after={"detail": why})


def _enqueue(tx: Tx, user: User, subdomain: Subdomain, message: Message) -> int:
    reference = f"auto_renew:{subdomain.id}:{tx.now:%Y%m%dT%H%M%S.%fZ}"
    return enqueue(tx, user, message, reference=reference, page=name_page(subdomain.fqdn))
