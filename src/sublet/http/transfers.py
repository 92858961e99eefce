"""Handlers of the transfer endpoints, which extend the spec (docs/spec-choices.md, "Transfers of names")."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Concatenate, ParamSpec

from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.http import response_structs
from sublet.http.conditional import only_if_match
from sublet.http.endpoints import Answer, Call
from sublet.http.idempotency import WriteResult, write_once
from sublet.http.paging import read_page
from sublet.http.request_structs import NoBody, TransferBody, TransfersQuery
from sublet.http.subdomains import if_subdomain_matches
from sublet.ids import Position
from sublet.subdomains.transfers import store
from sublet.subdomains.transfers.accept import accept
from sublet.subdomains.transfers.decline import decline
from sublet.subdomains.transfers.find import (
    Requester,
    find_own_transfer,
    is_sender,
    lock_requester_and_sender,
)
from sublet.subdomains.transfers.model import NameTransfer, TransferFilter
from sublet.subdomains.transfers.push import push
from sublet.subdomains.transfers.withdraw import withdraw

P = ParamSpec("P")


async def push_(call: Call[TransferBody, None]) -> Answer[response_structs.TransferAnswer]:
    """Offer a subdomain to another person.

    Mails the address `to`, whose owner may accept within seven days. The answer doesn't tell whether the address has an account. The name
    doesn't change until the transfer is accepted.
    """
    verb = if_subdomain_matches(call, push)
    done = await write_once(
        call, 201, verb, call.actor(), call.path["fqdn"], call.body.to, call.client.public_url
    )
    return await _transfer_answer(call, done)


async def list_transfers(call: Call[None, TransfersQuery]) -> Answer[response_structs.TransfersAnswer]:
    """List transfers.

    Returns the transfers that the user sent or received, newest first. A token for an organization lists the transfers that the organization sent.
    """
    requester, restrictions = _requester(call), call.actor().restrictions
    wanted = TransferFilter(call.query.state, call.query.direction)

    def find(
        tx: Tx, limit: int, after: Position | None
    ) -> Iterator[tuple[Position, response_structs.TransferShape]]:
        for each in store.list_own(
            tx, requester.person, requester.holder, restrictions, wanted, limit, after
        ):
            yield Position(each.created_at, each.id), _shape(requester, each, tx.now)

    items, page, headers = await read_page(call, "transfers", find)
    return Answer(response_structs.TransfersAnswer(transfers=items, page=page), headers)


async def get_transfer(call: Call[None, None]) -> Answer[response_structs.TransferAnswer]:
    """Get a transfer.

    Returns the transfer with this id, if the user sent or received it.
    """
    return Answer(await call.context.db.read(_answer, call, call.path["id"]))


async def accept_(call: Call[NoBody, None]) -> Answer[response_structs.TransferAnswer]:
    """Accept a transfer.

    Moves the name to the user, or to the organization that the token is for. Term, mode and delegation stay. A free name counts against the
    free quota. Nothing is charged.
    """
    done = await write_once(
        call,
        200,
        _if_match(call, accept),
        call.actor(),
        call.path["id"],
        free_quota=call.default_free_quota(),
    )
    return await _transfer_answer(call, done)


async def decline_(call: Call[NoBody, None]) -> Answer[response_structs.TransferAnswer]:
    """Decline a transfer.

    The name stays with the sender. Mails the sender.
    """
    done = await write_once(call, 200, _if_match(call, decline), call.actor(), call.path["id"])
    return await _transfer_answer(call, done)


async def withdraw_(call: Call[NoBody, None]) -> Answer[response_structs.TransferAnswer]:
    """Withdraw a transfer.

    Ends the offer, so that it can't be accepted.
    """
    done = await write_once(call, 200, _if_match(call, withdraw), call.actor(), call.path["id"])
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


def _answer(tx: Tx, call: Call[Any, Any], identifier: str) -> response_structs.TransferAnswer:
    requester = _requester(call)
    return response_structs.TransferAnswer(
        transfer=_shape(requester, find_own_transfer(tx, call.actor(), requester, identifier), tx.now)
    )


def _requester(call: Call[Any, Any]) -> Requester:
    return Requester(call.registrant.user, call.registrant.holder)


async def _transfer_answer(
    call: Call[Any, Any], done: WriteResult
) -> Answer[response_structs.TransferAnswer]:
    return done.answer(await call.context.db.read(_answer, call, str(done.outcome.id)))


def _shape(requester: Requester, transfer: NameTransfer, now: datetime) -> response_structs.TransferShape:
    return response_structs.TransferShape(
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
