"""The API of tokens, which extends the spec (docs/spec-choices.md, "Tokens")."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, ClassVar, Concatenate, ParamSpec

from msgspec import UNSET, Meta, UnsetType

from sublet.accounts.model import Token, User
from sublet.accounts.tokens.issue import IssuedToken
from sublet.accounts.tokens.tokens import (
    OVERLAP_SECONDS_MAX,
    acting_credential_of,
    change_token,
    create_token,
    find_acting_credential,
    find_own_token,
    list_own_tokens,
    revoke_own_token,
    rotate_token,
)
from sublet.audit import Actor
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.errors import AccountSuspended, Conflict, PreconditionFailed, TokenNotFound, ValidationFailed
from sublet.ids import Position
from sublet.operations import tags
from sublet.operations.call import Answer, Call
from sublet.operations.conditional import only_if_match
from sublet.operations.idempotency import WriteResult, write_once
from sublet.operations.operation import API, Operations, Parameter, Refusals, not_sensitive, sensitive
from sublet.operations.paging import Paging
from sublet.operations.shapes import (
    NEXT_YEAR,
    NOW,
    PAGE,
    Body,
    Credits,
    HostName,
    Id,
    Moment,
    NoBody,
    PageQuery,
    PageShape,
    Shape,
    Success,
    one_of,
)
from sublet.organizations.notices import notify_of_token
from sublet.restrictions import DAILY_CREDITS_MAX, ITEMS_MAX, SCOPES, Restrictions
from sublet.secret import Secret

api = Operations(API, tags.TOKENS, id=Parameter("The token's id.", "7"))

_OWN_TOKEN: Refusals = (AccountSuspended, PreconditionFailed, TokenNotFound)

TOKEN_EXAMPLE: dict[str, Any] = {
    "id": 7,
    "name": "ci",
    "scopes": ["subdomains:read", "subdomains:write"],
    "names": ["*.example.net"],
    "domains": None,
    "networks": ["198.51.100.0/24"],
    "record_names": None,
    "daily_credits": None,
    "organization_id": 1,
    "created_at": NOW,
    "expires_at": "2026-12-21T09:30:00.000000Z",
    "last_used_at": None,
    "last_used_from": None,
    "revoked_at": None,
}

SHOWN_ONCE = "sublet_0123456789…"


class TokenDetailShape(Shape):
    """A token with its restrictions; null means unrestricted.

    `last_used_at` and `last_used_from` may be up to an hour old.

    `organization_id` is the organization for which the token acts. With the id of the user's own organization
    it acts for the user.
    """

    changed_by_requests: ClassVar = (
        "id",
        "name",
        "scopes",
        "names",
        "domains",
        "networks",
        "record_names",
        "daily_credits",
        "expires_at",
        "revoked_at",
    )

    id: Id
    name: str
    scopes: list[Annotated[str, one_of(SCOPES)]]
    names: list[str] | None
    domains: list[HostName] | None
    networks: list[str] | None
    record_names: list[str] | None
    daily_credits: Credits | None
    organization_id: Id
    created_at: Moment
    expires_at: Moment | None
    last_used_at: Moment | None
    last_used_from: str | None
    revoked_at: Moment | None


class TokensAnswer(Success, kw_only=True):
    """The tokens that may do no more than the token of the request, newest first."""

    tokens: list[TokenDetailShape]
    page: PageShape


class TokenAnswer(Success, kw_only=True):
    """One token."""

    token: TokenDetailShape


class SecretAnswer(Success, kw_only=True):
    """A token with its new secret, which is shown only once.

    `secret` is null in a repeated answer (`Idempotent-Replayed`).
    """

    token: TokenDetailShape
    secret: str | None


Scopes = Annotated[
    list[Annotated[str, Meta(extra_json_schema={"enum": list(SCOPES)})]],
    Meta(min_length=1, max_length=len(SCOPES)),
]
Names = Annotated[
    list[Annotated[str, Meta(max_length=256)]],
    Meta(
        min_length=1,
        max_length=ITEMS_MAX,
        description="The names that the token is for. `*.example.net` "
        "stands for all names below example.net. "
        "Null: all names.",
    ),
]
Domains = Annotated[
    list[Annotated[str, Meta(max_length=254)]],
    Meta(
        min_length=1,
        max_length=ITEMS_MAX,
        description="The platform domains whose names the token is for. Null: all platform domains.",
    ),
]
Networks = Annotated[
    list[Annotated[str, Meta(max_length=64)]],
    Meta(
        min_length=1,
        max_length=ITEMS_MAX,
        description="The networks from which the token may be used, in CIDR notation. Null: all networks.",
    ),
]
RecordNames = Annotated[
    list[Annotated[str, Meta(max_length=256)]],
    Meta(
        min_length=1,
        max_length=ITEMS_MAX,
        description="The owners of records that the token may change, relative to the name, such as "
        "`_acme-challenge`. `_acme-challenge.*` stands "
        "for all that begin with `_acme-challenge.`. Not with the scope `subdomains:write`. Null: all "
        "owners.",
    ),
]
DailyCredits = Annotated[
    int,
    Meta(
        ge=0,
        le=DAILY_CREDITS_MAX,
        description="The maximum number of credits spent within 24 hours. Null: no limit.",
    ),
]
ExpiresAt = Annotated[
    datetime,
    Meta(
        tz=True,
        description="RFC 3339, at most 365 days from now. Null is allowed "
        "only if the operator issued the token "
        "without an end.",
    ),
]


class ChangeTokenBody(Body):
    """A change of a token. A member that is left out keeps its stored value; null lifts a restriction."""

    name: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    scopes: Scopes | None = None
    names: Names | UnsetType | None = UNSET
    domains: Domains | UnsetType | None = UNSET
    networks: Networks | UnsetType | None = UNSET
    record_names: RecordNames | UnsetType | None = UNSET
    daily_credits: DailyCredits | UnsetType | None = UNSET
    expires_at: ExpiresAt | UnsetType | None = UNSET


class TokenBody(ChangeTokenBody):
    """A new token. A restriction that is left out is copied from the token of the request, but `expires_at`
    is then at most 30 days from now.
    """

    required_members: ClassVar[tuple[str, ...]] = ("name", "scopes")

    organization_id: (
        Annotated[
            int,
            Meta(
                ge=1,
                description="The id of the organization for which the token "
                "acts. By default it acts for the user "
                "or organization of the request.",
            ),
        ]
        | None
    ) = None


class RotateBody(Body):
    """The rotation of a token."""

    overlap_seconds: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=OVERLAP_SECONDS_MAX,
                description="The seconds for which the current secret stays "
                "valid, by default 3,600. With 0 it "
                "becomes invalid now.",
            ),
        ]
        | None
    ) = None


def sent_restrictions(body: ChangeTokenBody) -> dict[str, Any]:
    """Return the restrictions that were sent, by the names of their fields. None lifts a restriction."""
    sent = {name: getattr(body, name) for name in Restrictions.__struct_fields__}
    if sent["scopes"] is None:
        sent["scopes"] = UNSET
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in sent.items()
        if value is not UNSET
    }


def token_shape(token: Token, user: User) -> TokenDetailShape:
    """Return the shape of a user's token for /tokens."""
    members = {name: getattr(token, name) for name in TokenDetailShape.__struct_fields__}
    members["organization_id"] = token.organization_id or user.organization_id
    lists = {name: list(value) for name, value in members.items() if isinstance(value, tuple)}
    return TokenDetailShape(**members | lists)


P = ParamSpec("P")


class _WithSecret(Outcome, frozen=True):
    """An outcome with a secret. The secret isn't stored, so a repeated request doesn't get it."""

    secret: Secret | None = None


@api.get(
    "/tokens",
    "tokens:write",
    example={"tokens": [TOKEN_EXAMPLE], "page": PAGE},
)
def list_tokens(tx: Tx, call: Call[None, PageQuery]) -> Answer[TokensAnswer]:
    """List tokens.

    Returns the user's tokens, newest first, also revoked and expired ones, but none that may do more than the
    token of the request.
    """
    paging = Paging[TokenDetailShape](call, "tokens")
    found = list_own_tokens(tx, find_acting_credential(tx, call.actor()), paging.after)
    items, page, headers = paging.take(
        (Position(each.created_at, each.id), token_shape(each, call.registrant.user)) for each in found
    )
    return Answer(TokensAnswer(tokens=items, page=page), headers)


@api.write(
    "POST",
    "/tokens",
    "tokens:write",
    (AccountSuspended, ValidationFailed, Conflict),
    status=201,
    gate=sensitive("creates a credential"),
    told="the user; the owners, if it is for an organization",
    example_body={
        "name": "ci",
        "scopes": ["subdomains:read", "subdomains:write"],
        "names": ["*.example.net"],
        "networks": ["198.51.100.0/24"],
    },
    example={"token": TOKEN_EXAMPLE, "secret": SHOWN_ONCE},
)
async def create_token_(call: Call[TokenBody, None]) -> Answer[SecretAnswer]:
    """Create a token.

    The new token may do no more than the token of the request. `name` and `scopes` are required. A
    restriction that is left out is copied from the token of the request. Without `expires_at` the token
    expires in 30 days; it lives at most 365. Mails the user, and the owners of its organization. With
    `organization_id` it is for the names and credits of this organization, as far as the user's role there
    allows. Only this answer shows the secret.
    """
    body = call.body
    done = await write_once(
        call,
        _with_secret(create_token, "was created", call.client.public_url),
        call.actor(),
        body.name,
        sent_restrictions(body),
        body.organization_id,
    )
    return await _secret_answer(call, done)


@api.get(
    "/tokens/{id}",
    "tokens:write",
    (TokenNotFound,),
    has_etag=True,
    example={"token": TOKEN_EXAMPLE},
)
def get_token(tx: Tx, call: Call[None, None]) -> TokenAnswer:
    """Get a token.

    Returns the token with this id. A token with more rights than the request's token is not found.
    """
    return _answer(tx, call, call.path["id"])


@api.write(
    "PATCH",
    "/tokens/{id}",
    "tokens:write",
    (*_OWN_TOKEN, Conflict, ValidationFailed),
    gate=sensitive("can widen a credential"),
    told="the user if the token may do more; the owners, if it is for an organization",
    example_body={"networks": ["198.51.100.0/24", "2001:db8:7::/48"], "expires_at": NEXT_YEAR},
    example={
        "token": {
            **TOKEN_EXAMPLE,
            "networks": ["198.51.100.0/24", "2001:db8:7::/48"],
            "expires_at": NEXT_YEAR,
        }
    },
)
async def change_token_(call: Call[ChangeTokenBody, None]) -> Answer[TokenAnswer]:
    """Change a token.

    Changes the token's name and restrictions. A member that is left out keeps its value; null lifts the
    restriction. A new `expires_at` is at most 365 days from now. If the token may do more than before, mails
    the user, and the owners of its organization.
    """
    verb = _if_match(call, _change(call.client.public_url))
    done = await write_once(
        call, verb, call.actor(), call.path["id"], call.body.name, sent_restrictions(call.body)
    )
    return await _token_answer(call, done)


@api.write(
    "POST",
    "/tokens/{id}/rotate",
    "tokens:write",
    (*_OWN_TOKEN, Conflict, ValidationFailed),
    gate=sensitive("creates a credential: a new secret"),
    told="the user; the owners, if it is for an organization",
    example_body={"overlap_seconds": 600},
    example={"token": TOKEN_EXAMPLE, "secret": SHOWN_ONCE},
)
async def rotate_token_(call: Call[RotateBody, None]) -> Answer[SecretAnswer]:
    """Give a token a new secret.

    The current secret stays valid for `overlap_seconds`. A secret that was replaced earlier becomes invalid
    now. A token may rotate itself. Mails the user, and the owners of its organization.
    """
    verb = _if_match(call, _with_secret(rotate_token, "got a new secret", call.client.public_url))
    done = await write_once(call, verb, call.actor(), call.path["id"], call.body.overlap_seconds)
    return await _secret_answer(call, done)


def _with_secret(
    verb: Callable[Concatenate[Tx, P], IssuedToken], what: str, public_url: str
) -> Callable[Concatenate[Tx, P], Outcome]:
    """Return a verb that also mails what happened to the token."""

    def run(tx: Tx, /, *args: P.args, **kwargs: P.kwargs) -> Outcome:
        issued = verb(tx, *args, **kwargs)
        notify_of_token(tx, issued.user, issued.token, what, public_url)
        return _WithSecret(issued.token.id, secret=issued.secret)

    return run


def _change(
    public_url: str,
) -> Callable[[Tx, Actor, str, str | None, dict[str, Any]], Outcome]:
    """Return a verb that changes a token, and mails if the token may do more than before."""

    def run(tx: Tx, actor: Actor, identifier: str, name: str | None, changes: dict[str, Any]) -> Outcome:
        done = change_token(tx, actor, identifier, name, changes)
        if done.widened:
            what = f"may do more than before, by {', '.join(done.widened)}"
            notify_of_token(tx, done.user, done.token, what, public_url)
        return Outcome(done.token.id)

    return run


def _revoke(tx: Tx, actor: Actor, identifier: str) -> Outcome:
    return Outcome(revoke_own_token(tx, actor, identifier).id)


def _if_match(
    call: Call[Any, Any], verb: Callable[Concatenate[Tx, P], Outcome]
) -> Callable[Concatenate[Tx, P], Outcome]:
    return only_if_match(call, verb, lambda tx: _answer(tx, call, call.path["id"]))


def _answer(tx: Tx, call: Call[Any, Any], identifier: str) -> TokenAnswer:
    acting = find_acting_credential(tx, call.actor())
    return TokenAnswer(token=_shape(call, find_own_token(tx, acting, identifier)))


def _shape(call: Call[Any, Any], token: Token) -> TokenDetailShape:
    return token_shape(token, call.registrant.user)


async def _token_answer(call: Call[Any, Any], done: WriteResult) -> Answer[TokenAnswer]:
    shape = await _read_token(call, done)
    return done.answer(TokenAnswer(token=shape))


async def _secret_answer(call: Call[Any, Any], done: WriteResult) -> Answer[SecretAnswer]:
    shape = await _read_token(call, done)
    secret = done.outcome.secret if isinstance(done.outcome, _WithSecret) else None
    answer = SecretAnswer(token=shape, secret=secret.reveal() if secret is not None else None)
    return done.answer(answer)


async def _read_token(call: Call[Any, Any], done: WriteResult) -> TokenDetailShape:
    """Return the shape of the token that was just written, with the rights that the acting token had before
    the write.
    """

    def read(tx: Tx) -> TokenDetailShape:
        token = find_own_token(tx, acting_credential_of(call.registrant), str(done.outcome.id))
        return _shape(call, token)

    return await call.context.db.read(read)


@api.write(
    "DELETE",
    "/tokens/{id}",
    "tokens:write",
    _OWN_TOKEN,
    gate=not_sensitive("only takes rights away, and a leaked token must stop at once"),
    example_body={},
    example={"token": {**TOKEN_EXAMPLE, "revoked_at": NOW}},
)
async def revoke_token_(call: Call[NoBody, None]) -> Answer[TokenAnswer]:
    """Revoke a token.

    The API refuses a revoked token. A token may revoke itself. The tokens that it created stay valid.
    """
    done = await write_once(call, _if_match(call, _revoke), call.actor(), call.path["id"])
    return await _token_answer(call, done)
