"""Set a subdomain's automatic renewal (an extension; docs/spec-choices.md, "Automatic renewal")."""

from sublet import audit
from sublet.accounts.find import lock_holder
from sublet.accounts.sessions import require_recent_sign_in
from sublet.audit import Actor
from sublet.credits.ledger import check_credits
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.errors import InsufficientScope, TokenRestricted, validation_failed
from sublet.subdomains import store
from sublet.subdomains.find import find_in_account, refuse_unless_allowed
from sublet.subdomains.renew import refuse_renewed_by_operator


def set_auto_renew(
    tx: Tx, actor: Actor, identifier: str, max_credits: int | None, *, may_spend: bool
) -> Outcome:
    """Turn on automatic renewal for at most `max_credits` a term (0: only free renewals).

    None turns automatic renewal off.

    The user confirms charges up to this ceiling in advance. If the ceiling changes while renewal is open, the
    sweep tries to renew at once. Setting the current ceiling changes nothing.

    Raises, in this order:
        AccountSuspended: the user is suspended.
        SubdomainNotFound: the user has no such name, the token is not for the name, or the name is in the
            trash.
        SubdomainSuspended: the operator suspended the name.
        RenewalNotAvailable: only the operator renews the name.
        ValidationFailed: the ceiling is below 0, or above the maximum number of credits in one ledger entry.
        InsufficientScope: the ceiling is above 0, and the token lacks the scope credits:spend.
        SignInRequired: the ceiling is above 0, and the session's last sign-in is more than ten minutes ago.
        TokenRestricted: the ceiling is above 0, and the token has `daily_credits`.
    """
    lock_holder(tx, actor)
    subdomain = find_in_account(tx, actor, identifier)
    refuse_unless_allowed(subdomain, "set_auto_renew", tx.now)
    refuse_renewed_by_operator(subdomain)
    errors = [] if max_credits is None else check_credits("max_credits", max_credits, least=0)
    if errors:
        raise validation_failed(errors)
    if max_credits and not may_spend:
        raise InsufficientScope(
            "This token may not spend credits. Use a token with the scope credits:spend.",
            details={"required_scope": "credits:spend"},
        )
    if max_credits:
        require_recent_sign_in(tx, actor)
    if max_credits and actor.restrictions.daily_credits is not None:
        # The sweep charges the renewal without this token, so the charge would not count against
        # `daily_credits`.
        raise TokenRestricted(
            "This token has `daily_credits`, so it can't confirm paid renewals in advance. Send "
            "`max_credits`: 0, or use another token.",
            details={"restriction": "daily_credits"},
        )
    before = subdomain.auto_renew_max_credits
    if max_credits != before:
        store.update_subdomain(tx, subdomain.id, auto_renew_max_credits=max_credits, auto_renew_tried_at=None)
        audit.record(
            tx,
            actor,
            "subdomain.set_auto_renew",
            subdomain.id,
            before={"auto_renew_max_credits": before},
            after={"auto_renew_max_credits": max_credits},
        )
    return Outcome(subdomain.id)
