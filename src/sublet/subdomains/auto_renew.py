"""Renew a subdomain by itself, as its user asked (docs/spec-choices.md, "Automatic renewal"): the sweep's part of it."""

from sublet import audit
from sublet.accounts.model import User
from sublet.audit import SYSTEM
from sublet.counted import counted
from sublet.credits.model import Payable
from sublet.db import Tx
from sublet.errors import PriceChanged, Refusal
from sublet.mail.outbox import enqueue
from sublet.subdomains import milestone_store, store
from sublet.subdomains.find import reread
from sublet.subdomains.lifecycle import renewal_opens_at
from sublet.subdomains.model import Subdomain
from sublet.subdomains.reminder_mail import not_renewed_mail, renewed_mail
from sublet.subdomains.renew import extend

ACCOUNT_SUSPENDED = "The account is suspended."


def auto_renew(tx: Tx, user: User, subdomain: Subdomain) -> bool:
    """Try to renew a name for at most its ceiling; tell whether it was. Either is a milestone with its sentence.

    Of several failures for one reason before one expiry the first alone is told by mail. This mail is about money, so it is sent
    to those too who want no reminders. Nothing is checked here but what the renewal
    itself asks; when it is to be tried says `lifecycle.auto_renew_at`.
    """
    store.update_subdomain(tx, subdomain.id, auto_renew_tried_at=tx.now)
    why = ACCOUNT_SUSPENDED
    if user.suspended_at is None:
        payable = Payable(confirm=True, max_credits=subdomain.auto_renew_max_credits)
        try:
            with tx.savepoint():
                outcome = extend(tx, SYSTEM, user, subdomain, payable, action="renew", automatic=True)
        except PriceChanged as refusal:
            why = f"It would cost {counted(refusal.quote.price, 'credit')}, and the ceiling is {subdomain.auto_renew_max_credits}."
        except Refusal as refusal:
            why = refusal.message
        else:
            _tell_renewed(tx, user, reread(tx, subdomain), outcome.charged_credits)
            return True
    _tell_failed(tx, user, subdomain, why)
    return False


def _tell_renewed(tx: Tx, user: User, subdomain: Subdomain, charged_credits: int) -> None:
    subject, text = renewed_mail(subdomain, user.name, charged_credits)
    mail_id = enqueue(tx, user, reference=_reference(tx, subdomain), subject=subject, text=text)
    detail = f"Renewed for {counted(charged_credits, 'credit')} until {subdomain.expires_at:%Y-%m-%d}."
    milestone_store.insert_milestone(tx, subdomain.id, "auto_renewed", tx.now, detail=detail, mail_id=mail_id)


def _tell_failed(tx: Tx, user: User, subdomain: Subdomain, why: str) -> None:
    opened_at = renewal_opens_at(subdomain)
    told = any(
        each.mail_id is not None and each.detail == why and each.created_at >= opened_at
        for each in milestone_store.list_milestones(tx, subdomain.id)
    )
    mail_id = None
    if not told:
        subject, text = not_renewed_mail(subdomain, user.name, why, tx.now)
        mail_id = enqueue(tx, user, reference=_reference(tx, subdomain), subject=subject, text=text)
    milestone_store.insert_milestone(
        tx, subdomain.id, "auto_renew_failed", tx.now, detail=why, mail_id=mail_id
    )
    audit.record(tx, SYSTEM, "subdomain.auto_renew_failed", "subdomain", subdomain.id, after={"detail": why})


def _reference(tx: Tx, subdomain: Subdomain) -> str:
    return f"auto_renew:{subdomain.id}:{tx.now:%Y%m%dT%H%M%S.%fZ}"
