"""Mail a code to sign in (POST /auth/sessions; docs/spec-choices.md, "Signing in")."""

from datetime import timedelta

from sublet.accounts.fields import check_email
from sublet.accounts.store import find_user_by_email
from sublet.db import Tx
from sublet.errors import RateLimited, validation_failed
from sublet.mail.outbox import enqueue_to
from sublet.mail.templates import render
from sublet.sign_up import store
from sublet.sign_up.codes import SIGN_IN, VALID_FOR, new_code

NETWORK_PER_HOUR = 30
"""Most codes that one network asks for in an hour."""
MAILS_PER_HOUR = 5
"""Most codes that one address gets in an hour for one network."""
MAILS_OF_ALL_PER_HOUR = 20
"""Most codes that one address gets in an hour. It is higher, so that a stranger alone can't use up the codes of a person."""
PAUSE = timedelta(minutes=1)
"""How long after a code the same address gets no other one."""
HOUR = timedelta(hours=1)
LINK_PATH = "/signin/confirm"
"""The page that the link in a mail opens."""


def request_code(tx: Tx, email: str, network: str, public_url: str) -> None:
    """Mail a code to an address. If it has no account, the mail says so. Known and unknown addresses take the same statements.

    If the address got a code within the last minute, or as many as it may in an hour, this silently mails nothing: a refusal would show
    that. A suspended user gets a code. `network` is that of the client; empty means no limit.

    Raises, in this order:
        ValidationFailed: the address is invalid.
        RateLimited: too many codes were asked for from this network.
    """
    email, errors = check_email(email)
    if errors:
        raise validation_failed(errors)
    store.lock_sign_ups(tx)
    _limit_network(tx, network)
    mailed = store.list_mailed_to(tx, email, (SIGN_IN,), tx.now - HOUR)
    of_network = [each for each in mailed if each[1] == network]
    if (
        (mailed and mailed[0][0] > tx.now - PAUSE)
        or len(of_network) >= MAILS_PER_HOUR
        or len(mailed) >= MAILS_OF_ALL_PER_HOUR
    ):
        return
    user = find_user_by_email(tx, email)
    new = new_code()
    code_id = store.insert_code(
        tx,
        new,
        purpose=SIGN_IN,
        email=email,
        name=user.name if user else "",
        user_id=user.id if user else None,
        network=network,
        is_proven=False,
        expires_at=tx.now + VALID_FOR[SIGN_IN],
    )
    message = render(
        "sign_in" if user else "unknown_address",
        name=user.name if user else "",
        code=new.code.reveal(),
        link=f"{public_url}{LINK_PATH}?token={new.link_token.reveal()}",
        public_url=public_url,
    )
    enqueue_to(tx, email, reference=f"code:{code_id}", subject=message.subject, text=message.text)


def _limit_network(tx: Tx, network: str) -> None:
    if not network:
        return
    count, _ = store.count_of_network(tx, network, (SIGN_IN,), tx.now - HOUR)
    if count >= NETWORK_PER_HOUR:
        raise RateLimited(
            f"More than {NETWORK_PER_HOUR} codes to sign in were asked for from your network within an hour. Wait an hour, or sign in "
            "with a passkey.",
            retry_after_seconds=int(HOUR.total_seconds()),
        )
