"""Handlers of the requests under `/auth/` that open an account without a token (docs/api.md, "Open an account")."""

from sublet.db import Tx
from sublet.errors import FieldError, SignUpClosed, validation_failed
from sublet.http import response_structs
from sublet.http.endpoints import Answer, OpenCall
from sublet.http.render import me_answer, token_shape
from sublet.http.request_structs import ConfirmSignUpBody, SignUpBody
from sublet.http.sign_in import cookie_headers, open_for_page
from sublet.sign_in.model import SignedIn
from sublet.sign_up import store
from sublet.sign_up.codes import SIGN_UP, VALID_FOR
from sublet.sign_up.proof_of_work import (
    PAYLOAD_CHARACTERS_MAX,
    SolvedChallenge,
    check_solution,
    new_challenge,
)
from sublet.sign_up.sign_up import SignedUp, SignUp, code_refusal, confirm_sign_up, sign_up


async def challenge(call: OpenCall[None]) -> Answer[response_structs.ChallengeAnswer]:
    """Get a challenge.

    Returns a proof of work for a sign-up (ALTCHA, version 2), which a browser solves in about a second. Its solution is valid for one
    sign-up within 20 minutes.
    """
    key = await call.context.db.read(store.find_signing_key)
    found = new_challenge(key, call.context.db.now())
    return Answer(response_structs.ChallengeAnswer(challenge=response_structs.ChallengeShape(**found)))


async def sign_up_(call: OpenCall[SignUpBody]) -> Answer[response_structs.CodeSentAnswer]:
    """Open an account: get a code by mail.

    Mails a code of six digits and a link, valid for 15 minutes. The answer doesn't tell whether the address has an account. `challenge`
    is the solution of a challenge; without it fewer sign-ups are accepted from a network.
    """
    settings, db, body = call.context.settings, call.context.db, call.body
    if settings.signup != "open":
        raise SignUpClosed(
            "This registry accepts no sign-ups. Ask its operator for an invitation."
            if settings.signup == "invite"
            else "This registry accepts no sign-ups. Ask its operator for an account."
        )
    solved = await _check_challenge(call, body.challenge) if body.challenge is not None else None
    request = SignUp(body.email or "", body.name or "", call.client.network, solved)
    await db.write(sign_up, request, call.client.public_url)
    sentence = "If this address can get mail, a code is on its way to it."
    seconds = int(VALID_FOR[SIGN_UP].total_seconds())
    return Answer(response_structs.CodeSentAnswer(message=sentence, expires_in_seconds=seconds))


async def confirm_sign_up_(call: OpenCall[ConfirmSignUpBody]) -> Answer[response_structs.SignedUpAnswer]:
    """Open an account: enter the code.

    Send `email` and `code`, or the `token` of the link. Creates the user, the user's own organization and a first token. The token has all
    scopes but `credits:spend`, and is valid for 30 days. Only this answer shows its secret. The code of an operator's invitation works too.
    If a page of the service sends the request, the answer sets the cookie of a session.
    """
    body = call.body
    actor = call.client.system_actor("sign-up", call.request_id)

    def verb(tx: Tx) -> tuple[SignedUp, SignedIn | None] | None:
        done = confirm_sign_up(
            tx, actor, email=body.email or "", code=body.code or "", link_token=body.token or ""
        )
        return None if done is None else (done, open_for_page(tx, call, done.member.user))

    opened = await call.context.db.write(verb)
    if opened is None:
        raise code_refusal()
    done, signed_in = opened
    me = me_answer(done.member, done.issued.token)
    token = token_shape(done.issued.token, done.member.user)
    secret = done.issued.secret.reveal()
    return Answer(
        response_structs.SignedUpAnswer(
            user=me.user, organization=me.organization, token=token, secret=secret
        ),
        cookie_headers(call, signed_in),
    )


async def _check_challenge(call: OpenCall[SignUpBody], payload: str) -> SolvedChallenge:
    key = await call.context.db.read(store.find_signing_key)
    solved = check_solution(key, payload) if len(payload) <= PAYLOAD_CHARACTERS_MAX else None
    if solved is None:
        sentence = "This is no solution of a challenge of this service, or the challenge has expired. Send the solution of a new challenge, from GET /auth/challenge."
        raise validation_failed([FieldError("challenge", "value_invalid", sentence)])
    return solved
