"""The API that opens an account without a token (docs/api.md, "Open an account")."""

from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from sublet.accounts.api import ME_EXAMPLE, USER_EXAMPLE, OrganizationShape, UserShape, me_answer
from sublet.accounts.model import Member, User
from sublet.accounts.tokens.api import SHOWN_ONCE, TOKEN_EXAMPLE, TokenDetailShape, token_shape
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import FieldError, RateLimited, SignUpClosed, ValidationFailed, validation_failed
from sublet.operations import tags
from sublet.operations.call import Answer, OpenCall
from sublet.operations.operation import AUTH, Operations, not_sensitive
from sublet.operations.shapes import Body, Shape, Success
from sublet.sign_in.api import CodeSentAnswer, ConfirmSignUpBody, cookie_headers, open_for_page
from sublet.sign_in.model import SignedIn
from sublet.sign_up import store
from sublet.sign_up.codes import SIGN_UP, VALID_FOR
from sublet.sign_up.mailed_codes import code_refusal
from sublet.sign_up.proof_of_work import (
    PAYLOAD_CHARACTERS_MAX,
    SolvedChallenge,
    check_solution,
    new_challenge,
)
from sublet.sign_up.sign_up import SignUp, confirm_sign_up, issue_first_token, sign_up

open_api = Operations(AUTH, tags.OPEN_ACCOUNT)

_CHALLENGE = {
    "parameters": {
        "algorithm": "PBKDF2/SHA-256",
        "cost": 5000,
        "expiresAt": 1795254600,
        "keyLength": 32,
        "keyPrefix": "00",
        "nonce": "0c1c6f0a3b5d4e7f8a9b0c1d2e3f4a5b",
        "salt": "5b4a3f2e1d0c9b8a7f4e5d3b0a6f1c0c",
    },
    "signature": "9b6c3d5f1a2e4b8c7d0f9e8a6b5c4d3e2f1a0b9c8d7e6f5a4b3c2d1e0f9a8b7c",
}


class ChallengeShape(Shape):
    """A challenge for the ALTCHA widget."""

    parameters: Annotated[
        dict[str, Any], Meta(description="Algorithm, cost, nonce, salt, prefix and expiry.")
    ]
    signature: Annotated[str, Meta(description="The service's signature of the parameters.")]


class ChallengeAnswer(Success, kw_only=True):
    """A new challenge."""

    challenge: ChallengeShape


class SignedUpAnswer(Success, kw_only=True):
    """A new user with its organization.

    `token` and `secret` are the user's first token, shown only once; null with the cookie of a session.
    """

    user: UserShape
    organization: OrganizationShape
    token: TokenDetailShape | None
    secret: str | None


class SignUpBody(Body):
    """A request to open an account."""

    required_members: ClassVar[tuple[str, ...]] = ("email", "name")

    email: Annotated[str, Meta(max_length=254, description="The address that gets the code.")] | None = None
    name: Annotated[str, Meta(max_length=200, description="The name of the new user.")] | None = None
    challenge: (
        Annotated[
            str,
            Meta(
                max_length=4000, description="The solution of a challenge: the payload of an ALTCHA widget."
            ),
        ]
        | None
    ) = None


class FirstCredential(Struct, frozen=True):
    """The credential of a new user: a session, or a token with its secret."""

    signed_in: SignedIn | None = None
    token: TokenDetailShape | None = None
    secret: str | None = None


@open_api.get(
    "/auth/challenge",
    example={"challenge": _CHALLENGE},
)
async def challenge(call: OpenCall[None]) -> Answer[ChallengeAnswer]:
    """Get a challenge.

    Returns a proof of work for a sign-up (ALTCHA, version 2), which a browser solves in about a second. Its
    solution is valid for one sign-up within 20 minutes.
    """
    key = await call.context.db.read(store.find_signing_key)
    found = new_challenge(key, call.context.db.now())
    return Answer(ChallengeAnswer(challenge=ChallengeShape(**found)))


@open_api.write(
    "POST",
    "/auth/signup",
    None,
    (SignUpClosed, ValidationFailed, RateLimited),
    status=202,
    gate=not_sensitive("opens no account yet: the code in the mail does"),
    told="the address",
    example_body={"email": "ada@example.org", "name": "Ada"},
    example={
        "message": "If this address can get mail, a code is on its way to it.",
        "expires_in_seconds": 900,
    },
)
async def sign_up_(call: OpenCall[SignUpBody]) -> Answer[CodeSentAnswer]:
    """Open an account: get a code by mail.

    Mails a code of six digits and a link, valid for 15 minutes. If the address has an account already, they
    sign in (POST /auth/sessions/confirm). The answer doesn't tell it. `challenge` is the solution of a
    challenge; without it fewer sign-ups are accepted from a network.
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
    return Answer(CodeSentAnswer(message=sentence, expires_in_seconds=seconds))


@open_api.write(
    "POST",
    "/auth/signup/confirm",
    None,
    (ValidationFailed,),
    status=201,
    gate=not_sensitive("the mailed code is a sign-in"),
    example_body={"email": "ada@example.org", "code": "123456"},
    example={
        "user": USER_EXAMPLE,
        "organization": ME_EXAMPLE["organization"],
        "token": {
            **TOKEN_EXAMPLE,
            "name": "first token",
            "scopes": [
                "account:read",
                "subdomains:read",
                "subdomains:write",
                "records:write",
                "tickets:read",
                "tickets:write",
                "tokens:write",
                "organization:write",
            ],
            "names": None,
            "domains": None,
            "networks": None,
            "record_names": None,
            "daily_credits": None,
            "last_used_at": None,
            "last_used_from": None,
        },
        "secret": SHOWN_ONCE,
    },
)
async def confirm_sign_up_(call: OpenCall[ConfirmSignUpBody]) -> Answer[SignedUpAnswer]:
    """Open an account: enter the code.

    Send `email` and `code`, or the `token` of the link. Creates the user, the user's own organization and a
    first token. The token has all scopes but `credits:spend`, and is valid for 30 days. Only this answer
    shows its secret. The code of an operator's invitation works too. If a page of the service sends the
    request, the answer sets the cookie of a session instead, and `token` and `secret` are null.
    """
    body = call.body
    actor = call.client.system_actor("sign-up", call.request_id)

    def verb(tx: Tx) -> tuple[Member, FirstCredential] | None:
        member = confirm_sign_up(
            tx, actor, email=body.email or "", code=body.code or "", link_token=body.token or ""
        )
        return None if member is None else (member, first_credential(tx, call, actor, member.user))

    opened = await call.context.db.write(verb)
    if opened is None:
        raise code_refusal()
    member, first = opened
    me = me_answer(member, None)
    return Answer(
        SignedUpAnswer(user=me.user, organization=me.organization, token=first.token, secret=first.secret),
        cookie_headers(call, first.signed_in),
    )


def first_credential(tx: Tx, call: OpenCall[Any], actor: Actor, user: User) -> FirstCredential:
    """Open a session for a new user if a page of the service sent the request. Otherwise issue a first token.

    A page would not show the token, so it would be valid without its user knowing it.
    """
    signed_in = open_for_page(tx, call, user)
    if signed_in is not None:
        return FirstCredential(signed_in)
    issued = issue_first_token(tx, actor, user)
    return FirstCredential(token=token_shape(issued.token, user), secret=issued.secret.reveal())


async def _check_challenge(call: OpenCall[SignUpBody], payload: str) -> SolvedChallenge:
    key = await call.context.db.read(store.find_signing_key)
    solved = check_solution(key, payload) if len(payload) <= PAYLOAD_CHARACTERS_MAX else None
    if solved is None:
        sentence = (
            "This is no solution of a challenge of this service, or the challenge has expired. Start again "
            "with a new challenge."
        )
        raise validation_failed([FieldError("challenge", "value_invalid", sentence)])
    return solved
