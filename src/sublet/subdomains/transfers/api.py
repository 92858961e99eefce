"""The API of transfers, which extends the spec (docs/spec-choices.md, "Transfers")."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, ClassVar, Concatenate, Literal, ParamSpec

from msgspec import Meta

from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.errors import (
    AccountSuspended,
    Conflict,
    FreeQuotaExceeded,
    PlatformDomainNotFound,
    PreconditionFailed,
    RateLimited,
    SubdomainUnavailable,
    TransferNotFound,
    TransferPending,
    ValidationFailed,
)
from sublet.ids import Position
from sublet.operations import tags
from sublet.operations.call import Answer, Call
from sublet.operations.conditional import only_if_match
from sublet.operations.idempotency import WriteResult, write_once
from sublet.operations.operation import API, Operations, Parameter, Refusals, not_sensitive, sensitive
from sublet.operations.paging import Paging
from sublet.operations.shapes import (
    NOW,
    PAGE,
    Body,
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
from sublet.subdomains.api import OWN_NAME, if_subdomain_matches
from sublet.subdomains.model import Subdomain
from sublet.subdomains.shapes import FQDN
from sublet.subdomains.transfers import store
from sublet.subdomains.transfers.end import decline, withdraw
from sublet.subdomains.transfers.find import (
    Requester,
    find_own_transfer,
    is_sender,
    lock_requester_and_sender,
)
from sublet.subdomains.transfers.model import DIRECTIONS, PENDING, STATES, NameTransfer, TransferFilter
from sublet.subdomains.transfers.move import accept
from sublet.subdomains.transfers.push import push

api = Operations(API, tags.SUBDOMAINS, fqdn=FQDN, id=Parameter("The transfer's id.", "6"))

_OWN_TRANSFER: Refusals = (AccountSuspended, PreconditionFailed, TransferNotFound)

_TRANSFER: dict[str, Any] = {
    "id": 3,
    "direction": "sent",
    "subdomain": "blog.example.net",
    "sender": "ada@example.org",
    "to": "bob@example.org",
    "state": "pending",
    "created_at": NOW,
    "expires_at": "2026-11-28T09:30:00.000000Z",
    "ended_at": None,
}

_RECEIVED = {**_TRANSFER, "direction": "received", "ended_at": "2026-11-22T09:30:00.000000Z"}


class TransferShape(Shape):
    """An offer of a name to an address.

    Until the offer is accepted or declined, it doesn't tell whether the address has an account.
    """

    changed_by_requests: ClassVar = ("id", "state")

    id: Id
    direction: Annotated[str, one_of(DIRECTIONS)]
    subdomain: HostName
    sender: str
    to: str
    state: Annotated[str, one_of(STATES)]
    created_at: Moment
    expires_at: Moment
    ended_at: Moment | None


class TransferAnswer(Success, kw_only=True):
    """One transfer of a name."""

    transfer: TransferShape


class TransfersAnswer(Success, kw_only=True):
    """The transfers that the user sent or received, newest first."""

    transfers: list[TransferShape]
    page: PageShape


class TransferBody(Body):
    """An offer to transfer a name."""

    required_members: ClassVar[tuple[str, ...]] = ("to",)

    to: Annotated[str, Meta(max_length=254, description="The e-mail address of the new holder.")] | None = (
        None
    )


class TransfersQuery(PageQuery, kw_only=True):
    """The filters of the list of transfers."""

    state: Literal["pending", "accepted", "declined", "withdrawn", "expired"] | None = None
    direction: Annotated[Literal["sent", "received"], Meta(description="By default both.")] | None = None


P = ParamSpec("P")


@api.write(
    "POST",
    "/subdomains/{fqdn}/transfer",
    "subdomains:write",
    (*OWN_NAME, Conflict, ValidationFailed, TransferPending, RateLimited),
    status=201,
    gate=sensitive("moves a name"),
    told="the holder, and the recipient, unless it is the user",
    example_body={"to": "bob@example.org"},
    example={"transfer": _TRANSFER},
)
async def push_(call: Call[TransferBody, None]) -> Answer[TransferAnswer]:
    """Offer a subdomain to another person.

    Mails the address `to`, whose owner may accept within seven days. The answer doesn't tell whether the
    address has an account. The name doesn't change until the transfer is accepted.
    """
    verb = if_subdomain_matches(call, push)
    done = await write_once(call, verb, call.actor(), call.path["fqdn"], call.body.to, call.client.public_url)
    return await _transfer_answer(call, done)


@api.get(
    "/transfers",
    "subdomains:read",
    example={"transfers": [_TRANSFER], "page": PAGE},
)
def list_transfers(tx: Tx, call: Call[None, TransfersQuery]) -> Answer[TransfersAnswer]:
    """List transfers.

    Returns the transfers that the user sent or received, newest first. A token for an organization lists the
    transfers that the organization sent.
    """
    requester, restrictions = _requester(call), call.actor().restrictions
    wanted = TransferFilter(call.query.state, call.query.direction)
    paging = Paging[TransferShape](call, "transfers")
    found = store.list_own(
        tx, requester.person, requester.holder, restrictions, wanted, paging.limit, paging.after
    )
    items, page, headers = paging.take(
        (Position(each.created_at, each.id), _shape(requester, each, tx.now)) for each in found
    )
    return Answer(TransfersAnswer(transfers=items, page=page), headers)


@api.get(
    "/transfers/{id}",
    "subdomains:read",
    (TransferNotFound,),
    has_etag=True,
    example={"transfer": _TRANSFER},
)
def get_transfer(tx: Tx, call: Call[None, None]) -> TransferAnswer:
    """Get a transfer.

    Returns the transfer with this id, if the user sent or received it.
    """
    return _answer(tx, call, call.path["id"])


@api.write(
    "DELETE",
    "/transfers/{id}",
    "subdomains:write",
    (*_OWN_TRANSFER, Conflict),
    gate=not_sensitive("the name stays with its holder"),
    example_body={},
    example={"transfer": {**_TRANSFER, "state": "withdrawn", "ended_at": "2026-11-22T09:30:00.000000Z"}},
)
async def withdraw_(call: Call[NoBody, None]) -> Answer[TransferAnswer]:
    """Withdraw a transfer.

    Ends the offer, so that it can't be accepted.
    """
    done = await write_once(call, _if_match(call, withdraw), call.actor(), call.path["id"])
    return await _transfer_answer(call, done)


def _if_match(
    call: Call[Any, Any], verb: Callable[Concatenate[Tx, P], Outcome]
) -> Callable[Concatenate[Tx, P], Outcome]:
    identifier = call.path["id"]
    return only_if_match(
        call,
        verb,
        lambda tx: _answer(tx, call, identifier),
        lambda tx: lock_requester_and_sender(tx, call.actor(), identifier),
    )


def _answer(tx: Tx, call: Call[Any, Any], identifier: str) -> TransferAnswer:
    requester = _requester(call)
    return TransferAnswer(
        transfer=_shape(requester, find_own_transfer(tx, call.actor(), requester, identifier), tx.now)
    )


def pending_offer_of(tx: Tx, call: Call[Any, Any], subdomain: Subdomain) -> TransferShape | None:
    """Return the transfer by which a name of the user is offered now, or None."""
    found = [each for each in store.list_pending(tx, [subdomain.id]) if each.state_at(tx.now) == PENDING]
    return _shape(_requester(call), found[0], tx.now) if found else None


def _requester(call: Call[Any, Any]) -> Requester:
    return Requester(call.registrant.user, call.registrant.holder)


async def _transfer_answer(call: Call[Any, Any], done: WriteResult) -> Answer[TransferAnswer]:
    return done.answer(await call.context.db.read(_answer, call, str(done.outcome.id)))


def _shape(requester: Requester, transfer: NameTransfer, now: datetime) -> TransferShape:
    return TransferShape(
        id=transfer.id,
        direction="sent" if is_sender(transfer, requester) else "received",
        subdomain=transfer.subdomain,
        sender=transfer.sender,
        to=transfer.recipient_email,
        state=transfer.state_at(now),
        created_at=transfer.created_at,
        expires_at=transfer.expires_at,
        ended_at=transfer.ended_at,
    )


@api.write(
    "POST",
    "/transfers/{id}/accept",
    "subdomains:write",
    (*_OWN_TRANSFER, Conflict, PlatformDomainNotFound, SubdomainUnavailable, FreeQuotaExceeded),
    gate=sensitive("moves a name"),
    told="the sender, and the receiver",
    example_body={},
    example={"transfer": {**_RECEIVED, "state": "accepted"}},
)
async def accept_(call: Call[NoBody, None]) -> Answer[TransferAnswer]:
    """Accept a transfer.

    Moves the name to the user, or to the organization that the token is for. Term, mode and delegation stay.
    A free name counts against the free quota. Nothing is charged.
    """
    done = await write_once(
        call,
        _if_match(call, accept),
        call.actor(),
        call.path["id"],
        free_quota=call.default_free_quota(),
    )
    return await _transfer_answer(call, done)


@api.write(
    "POST",
    "/transfers/{id}/decline",
    "subdomains:write",
    (*_OWN_TRANSFER, Conflict),
    gate=not_sensitive("the name stays with its holder"),
    told="the sender",
    example_body={},
    example={"transfer": {**_RECEIVED, "state": "declined"}},
)
async def decline_(call: Call[NoBody, None]) -> Answer[TransferAnswer]:
    """Decline a transfer.

    The name stays with the sender. Mails the sender.
    """
    done = await write_once(call, _if_match(call, decline), call.actor(), call.path["id"])
    return await _transfer_answer(call, done)
