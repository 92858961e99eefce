"""Handlers of the requests under `/auth/` that sign a browser in without a token (docs/api.md, "Sign in")."""

from datetime import timedelta
from typing import Any

from sublet.accounts.model import Member, User
from sublet.accounts.sessions import MAIL
from sublet.db import Tx
from sublet.http import response_structs
from sublet.http.client import Client, is_from_site, refuse_other_sites
from sublet.http.endpoints import Answer, Context, OpenCall
from sublet.http.render import me_answer, session_shape
from sublet.http.request_structs import ConfirmSignUpBody, CredentialBody, NoBody, SignInBody
from sublet.http.session_cookie import set_cookie
from sublet.sign_in.identify import (
    code_refusal,
    identify_by_code,
    identify_by_passkey,
    passkey_refusal,
)
from sublet.sign_in.model import IdentifiedUser, SignedIn
from sublet.sign_in.open_session import open_session
from sublet.sign_in.passkeys import SIGN_IN_CHALLENGE, new_challenge, use_options
from sublet.sign_in.request_code import request_code
from sublet.sign_up.codes import SIGN_IN, VALID_FOR
from sublet.sign_up.store import find_signing_key


async def request_sign_in(call: OpenCall[SignInBody]) -> Answer[response_structs.CodeSentAnswer]:
    """Sign in: get a code by mail.

    Mails a code of six digits and a link, valid for 15 minutes. The answer doesn't tell whether the address has an account.
    """
    client = call.client
    await call.context.db.write(request_code, call.body.email or "", client.network, client.public_url)
    sentence = "If this address can get mail, a code is on its way to it."
    seconds = int(VALID_FOR[SIGN_IN].total_seconds())
    return Answer(response_structs.CodeSentAnswer(message=sentence, expires_in_seconds=seconds))


async def confirm_sign_in(call: OpenCall[ConfirmSignUpBody]) -> Answer[response_structs.SignedInAnswer]:
    """Sign in: enter the code.

    Send `email` and `code`, or the `token` of the link. Sets the cookie of a session. If the browser already has a session of this user, the
    session gets a new secret and counts as signed in now.
    """
    refuse_other_sites(call.client)
    body = call.body

    def verb(tx: Tx) -> SignedIn | None:
        identified = identify_by_code(
            tx, email=body.email or "", code=body.code or "", link_token=body.token or ""
        )
        return _open(tx, identified, call.context, call.client, call.request_id)

    done = await call.context.db.write(verb)
    if done is None:
        raise code_refusal()
    return _answer(call, done)


async def challenge_passkey(call: OpenCall[NoBody]) -> Answer[response_structs.OptionsAnswer]:
    """Sign in with a passkey: get a challenge.

    Returns the options for `navigator.credentials.get`, valid for one sign-in within five minutes. The options name no user and no passkey.
    """
    key = await call.context.db.read(find_signing_key)
    found = new_challenge(key, SIGN_IN_CHALLENGE, call.context.db.now())
    return Answer(response_structs.OptionsAnswer(public_key=use_options(call.client.site, found)))


async def confirm_passkey(call: OpenCall[CredentialBody]) -> Answer[response_structs.SignedInAnswer]:
    """Sign in with a passkey.

    Send the result of `navigator.credentials.get`. Sets the cookie of a session. Stops a recovery.
    """
    refuse_other_sites(call.client)
    credential: dict[str, Any] = call.body.credential or {}

    def verb(tx: Tx) -> SignedIn | None:
        identified = identify_by_passkey(tx, credential, call.client.site)
        return _open(tx, identified, call.context, call.client, call.request_id)

    done = await call.context.db.write(verb)
    if done is None:
        raise passkey_refusal()
    return _answer(call, done)


def _open(
    tx: Tx, identified: IdentifiedUser | None, context: Context, client: Client, request_id: str
) -> SignedIn | None:
    """Open a session for an identified user, and return it; return None if `identified` is None."""
    if identified is None:
        return None
    lifetime = timedelta(days=context.settings.session_max_days)
    return open_session(tx, identified, client.browser(), lifetime, request_id, client.public_url)


def _answer(call: OpenCall[Any], done: SignedIn) -> Answer[response_structs.SignedInAnswer]:
    session = done.session
    me = me_answer(Member(done.member.user, done.member.organization), None)
    answer = response_structs.SignedInAnswer(
        user=me.user, organization=me.organization, session=session_shape(session, session.id)
    )
    return Answer(answer, cookie_headers(call, done))


def open_for_page(tx: Tx, call: OpenCall[Any], user: User) -> SignedIn | None:
    """Sign in a user who has just opened an account, if a page of the service sent the request; otherwise return None."""
    if not is_from_site(call.client.fields, call.client.site):
        return None
    return _open(tx, IdentifiedUser(user, MAIL), call.context, call.client, call.request_id)


def cookie_headers(call: OpenCall[Any], done: SignedIn | None) -> dict[str, str]:
    """Return the header that sets the cookie of a session; empty without a session."""
    if done is None:
        return {}
    return {"set-cookie": set_cookie(done.secret, done.session.expires_at, call.context.db.now())}
