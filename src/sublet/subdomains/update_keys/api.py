"""The API of the update keys of a name (docs/certificates.md)."""

from typing import Annotated, Any

from msgspec import Meta

from sublet.accounts.model import Token
from sublet.accounts.tokens.api import ExpiresAt, RecordNames
from sublet.db import Tx
from sublet.errors import (
    AccountSuspended,
    Conflict,
    DelegationExists,
    SubdomainNotFound,
    TokenNotFound,
    ValidationFailed,
)
from sublet.operations import tags
from sublet.operations.call import Answer, Call
from sublet.operations.idempotency import write_once
from sublet.operations.operation import API, Operations, Parameter, not_sensitive, sensitive
from sublet.operations.shapes import NEXT_YEAR, NOW, Body, Id, Moment, NoBody, Shape, Success, one_of
from sublet.subdomains.shapes import FQDN
from sublet.subdomains.update_keys.keys import (
    ALGORITHM,
    create_update_key,
    find_update_key,
    key_name,
    list_update_keys,
    revoke_update_key,
    shown_secret,
)

api = Operations(API, tags.RECORDS, fqdn=FQDN, id=Parameter("The key's id.", "7"))
_EXAMPLE: dict[str, Any] = {
    "id": 7,
    "name": "certbot",
    "key_name": "key7.blog.example.net",
    "algorithm": ALGORITHM,
    "record_names": ["_acme-challenge"],
    "created_at": NOW,
    "expires_at": NEXT_YEAR,
    "last_used_at": None,
    "last_used_from": None,
    "revoked_at": None,
}


class UpdateKeyShape(Shape):
    """An update key without its secret.

    `key_name` is its name in TSIG. `record_names` null means all owners. `last_used_at` and `last_used_from`
    may be up to an hour old.
    """

    id: Id
    name: str
    key_name: str
    algorithm: Annotated[str, one_of((ALGORITHM,))]
    record_names: list[str] | None
    created_at: Moment
    expires_at: Moment | None
    last_used_at: Moment | None
    last_used_from: str | None
    revoked_at: Moment | None


class UpdateKeysAnswer(Success, kw_only=True):
    """The valid update keys of a name, newest first."""

    update_keys: list[UpdateKeyShape]


class UpdateKeyAnswer(Success, kw_only=True):
    """One update key."""

    update_key: UpdateKeyShape


class UpdateKeySecretAnswer(Success, kw_only=True):
    """An update key with its secret in base64, which is not shown again.

    `server` is the IP address and port that answer DNS UPDATE.
    """

    update_key: UpdateKeyShape
    secret: str
    server: str


class UpdateKeyBody(Body):
    """A new update key."""

    name: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    record_names: RecordNames | None = None
    expires_at: ExpiresAt | None = None


@api.get(
    "/subdomains/{fqdn}/update-keys",
    "tokens:write",
    (SubdomainNotFound,),
    example={"update_keys": [_EXAMPLE]},
)
def list_update_keys_(tx: Tx, call: Call[None, None]) -> UpdateKeysAnswer:
    """List the update keys of a subdomain.

    Returns the valid keys of the name, newest first, but none that may do more than the token of the request.
    GET /tokens lists them too.
    """
    found = list_update_keys(tx, call.actor(), call.path["fqdn"])
    return UpdateKeysAnswer(update_keys=[_shape(each) for each in found])


@api.write(
    "POST",
    "/subdomains/{fqdn}/update-keys",
    "tokens:write",
    (AccountSuspended, SubdomainNotFound, Conflict, DelegationExists, ValidationFailed),
    status=201,
    gate=sensitive("creates a credential"),
    told="the user; the owners, if it is for an organization",
    example_body={"name": "certbot", "record_names": ["_acme-challenge"]},
    example={
        "update_key": _EXAMPLE,
        "secret": "c2VjcmV0IG9mIDMyIG9jdGV0cyBpbiBiYXNlNjQgLi4=",
        "server": "203.0.113.53:53",
    },
)
async def create_update_key_(call: Call[UpdateKeyBody, None]) -> Answer[UpdateKeySecretAnswer]:
    """Create an update key of a subdomain.

    With the key, programs change the name's records by DNS UPDATE. It may do no more than the token of the
    request, which needs `records:write` too. Without `expires_at` it lives a year, or as long as the token of
    the request. Mails the user, and the owners of its organization. Only this answer shows the secret.
    """
    server, server_secret, body = call.context.update_server, call.context.update_secret, call.body
    names = None if body.record_names is None else tuple(body.record_names)
    done = await write_once(
        call,
        create_update_key,
        call.actor(),
        call.path["fqdn"],
        body.name,
        names,
        body.expires_at,
        is_accepted=bool(server),
        public_url=call.client.public_url,
    )
    token = await call.context.db.read(_find, done.outcome.id)
    assert server_secret is not None  # noqa: S101 - the verb refused otherwise
    secret = shown_secret(server_secret, token)
    return done.answer(UpdateKeySecretAnswer(update_key=_shape(token), secret=secret, server=server))


@api.write(
    "DELETE",
    "/subdomains/{fqdn}/update-keys/{id}",
    "tokens:write",
    (AccountSuspended, SubdomainNotFound, TokenNotFound),
    gate=not_sensitive("only takes rights away, and a leaked key must stop at once"),
    example_body={},
    example={"update_key": {**_EXAMPLE, "revoked_at": NOW}},
)
async def revoke_update_key_(call: Call[NoBody, None]) -> Answer[UpdateKeyAnswer]:
    """Revoke an update key of a subdomain.

    Messages with the key are refused from now on. Revoking it again changes nothing.
    """
    done = await write_once(call, revoke_update_key, call.actor(), call.path["fqdn"], call.path["id"])
    return done.answer(UpdateKeyAnswer(update_key=_shape(await call.context.db.read(_find, done.outcome.id))))


def _find(tx: Tx, key_id: int) -> Token:
    found = find_update_key(tx, key_id)
    assert found is not None  # noqa: S101 - tokens are never deleted
    return found


def _shape(token: Token) -> UpdateKeyShape:
    return UpdateKeyShape(
        id=token.id,
        name=token.name,
        key_name=key_name(token),
        algorithm=ALGORITHM,
        record_names=None if token.record_names is None else list(token.record_names),
        created_at=token.created_at,
        expires_at=token.expires_at,
        last_used_at=token.last_used_at,
        last_used_from=token.last_used_from,
        revoked_at=token.revoked_at,
    )
