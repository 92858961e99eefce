"""Handlers of the user's own account: data, reminders, address, activity, export, deletion (docs/spec-choices.md, "Activity")."""

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from sublet.accounts.find import find_member
from sublet.accounts.model import Member, User
from sublet.accounts.set_reminders import set_reminders
from sublet.audit import ActivityFilter
from sublet.credits.model import Outcome
from sublet.credits.store import find_balance
from sublet.db import Tx
from sublet.errors import InsufficientScope, TokenRestricted
from sublet.http import response_structs
from sublet.http.endpoints import Answer, Call
from sublet.http.export_store import ROWS_AT_ONCE, SECTIONS, Section, SortKey, next_part
from sublet.http.idempotency import write_once
from sublet.http.paging import read_page
from sublet.http.render import me_answer
from sublet.http.request_structs import AccountBody, ActivityQuery, DeleteMeBody, EmailCodeBody, RemindersBody
from sublet.ids import Position
from sublet.sign_in.change_account import AccountChange, change_account, confirm_email, count_attempt
from sublet.sign_up.sign_up import FIRST_SCOPES
from sublet.subdomains.activity import list_activity

Part = tuple[bytes, Any]
"""The encoded items of a part of a list, and the key with which the next part continues; None after the last part."""


async def me(call: Call[None, None]) -> Answer[response_structs.MeAnswer]:
    """Get the user, the organization and the token of the request.

    Returns the user and the organization that the token identifies, and the token with its scopes and dates. With a session `token` is null.
    """
    registrant = call.registrant
    return Answer(me_answer(Member(registrant.user, registrant.organization), registrant.token))


async def set_reminders_(call: Call[RemindersBody, None]) -> Answer[response_structs.MeAnswer]:
    """Turn reminders on or off.

    With `enabled`: true the user gets mail before dates of the names, such as an expiry. Answers to tickets are always mailed.
    """

    def verb(tx: Tx) -> Outcome:
        return Outcome(set_reminders(tx, call.actor(), call.body.enabled).user.id)

    return await _change_user(call, verb)


async def change_account_(call: Call[AccountBody, None]) -> Answer[response_structs.MeAnswer]:
    """Change the account.

    `name` and `reminders` change at once. A new `email` requires a sign-in within the last ten minutes. The new address gets a code for
    POST /me/email; the current address gets a notice.
    """

    def verb(tx: Tx) -> Outcome:
        body = call.body
        change = AccountChange(body.name, body.email, body.reminders)
        return Outcome(change_account(tx, call.actor(), change, call.client.public_url).user.id)

    return await _change_user(call, verb)


async def confirm_email_(call: Call[EmailCodeBody, None]) -> Answer[response_structs.MeAnswer]:
    """Change the address: enter the code.

    Takes the `code` from the mail to the new address. The former address gets a notice.
    """

    def verb(tx: Tx) -> Outcome:
        return Outcome(confirm_email(tx, call.actor(), call.body.code, call.client.public_url).user.id)

    await call.context.db.write(count_attempt, call.actor(), call.client.public_url)
    return await _change_user(call, verb)


async def _change_user(
    call: Call[Any, None], verb: Callable[[Tx], Outcome]
) -> Answer[response_structs.MeAnswer]:
    done = await write_once(call, 200, verb)
    member = await call.context.db.read(find_member, done.outcome.id)
    return done.answer(me_answer(member, call.registrant.token))


async def activity(call: Call[None, ActivityQuery]) -> Answer[response_structs.ActivityAnswer]:
    """List the activity of the account.

    Returns what the user did, with token and address, and what the operator and the system did to the account, its names, tokens and tickets.
    Newest first. Addresses are stored for 90 days.
    """
    _refuse_restricted(call)
    query = call.query
    wanted = ActivityFilter(query.action, query.token_id, query.since, query.until)
    user_id, account = call.registrant.user.id, call.registrant.account
    account_id = account.id if account is not None else None

    def find(
        tx: Tx, limit: int, after: Position | None
    ) -> Iterator[tuple[Position, response_structs.ActivityShape]]:
        before_id = after.id if after is not None else None
        for each in list_activity(tx, user_id, wanted, limit, before_id, account_id=account_id):
            yield Position(each.at, each.id), response_structs.ActivityShape.of(each)

    items, page, headers = await read_page(call, "activity", find)
    return Answer(response_structs.ActivityAnswer(activity=items, page=page), headers)


async def export(call: Call[None, None]) -> Answer[response_structs.ExportAnswer]:
    """Export the account.

    Returns all that the registry stores about the user in one JSON document: account, names (also trashed and purged), payments, coupons,
    tokens without secrets, transfers, tickets with their messages, activity. The answer is streamed.
    """
    _require_all_rights(call)
    user_id = call.registrant.user.id

    def read(tx: Tx) -> response_structs.AccountShape:
        member = find_member(tx, user_id)
        return response_structs.AccountShape(
            **{name: getattr(member.user, name) for name in _OF_USER},
            organization=response_structs.OrganizationShape.of(member.organization),
            credit_balance=find_balance(tx, user_id),
        )

    account = await call.context.db.read(read)
    head = response_structs.ExportBeginning(account=account)
    named = {"content-disposition": f'attachment; filename="account-{user_id}.json"'}
    return Answer(head, named, parts=_parts(call, head))  # type: ignore[arg-type] # `parts` has the lists


_OF_USER = ("id", "email", "name", "reminders", "free_quota", "suspended_at", "created_at", "signed_up_at")


async def _parts(call: Call[Any, Any], head: response_structs.ExportBeginning) -> AsyncIterator[bytes]:
    """Yield the JSON of an export. Each part of a list is read in its own transaction, and encoded on the same thread."""
    user = call.registrant.user
    yield msgspec.json.encode(head)[:-1]
    lists: dict[str, Callable[[Tx, Any], Part]] = {
        name: partial(_read_part, section=section, user=user) for name, section in SECTIONS.items()
    }
    lists["activity"] = partial(_read_activity, user=user)
    for name, read in lists.items():
        yield b',"%s":[' % name.encode()
        key, joint = None, b""
        while True:
            text, key = await call.context.db.read(read, key)
            if text:
                yield joint + text
                joint = b","
            if key is None:
                break
        yield b"]"
    yield b"}"


def _read_part(tx: Tx, after: SortKey | None, *, section: Section, user: User) -> Part:
    found, key = next_part(tx, section, user, after)
    return msgspec.json.encode(found)[1:-1], key


def _read_activity(tx: Tx, before_id: int | None, *, user: User) -> Part:
    found = list_activity(tx, user.id, ActivityFilter(), ROWS_AT_ONCE, before_id)
    is_last = len(found) < ROWS_AT_ONCE
    return msgspec.json.encode(found)[1:-1], None if is_last else found[-1].id


async def delete_me(call: Call[DeleteMeBody, None]) -> Answer[response_structs.DeletedMeAnswer]:
    """Delete the account.

    Requires the user's own address as `confirm`. The names go to the trash, the credits are lost, all tokens are revoked, and address, name
    and texts are erased permanently. Without `confirm` the answer (409) lists what would be lost.
    """
    _require_all_rights(call)
    done = await write_once(call, 200, call.context.delete_user, call.actor(), call.body.confirm)
    deleted = response_structs.DeletedUserShape(id=done.outcome.id)
    return done.answer(response_structs.DeletedMeAnswer(deleted=deleted))


def _refuse_restricted(call: Call[Any, Any]) -> None:
    """Raise `TokenRestricted` if the token is restricted to some names."""
    if not call.actor().restrictions.allows_all_names:
        raise TokenRestricted(
            "This request is about the whole account, and the token is restricted to some names. Use a token for all names.",
            details={"restriction": "names"},
        )


def _require_all_rights(call: Call[Any, Any]) -> None:
    """Raise unless the token may read and change everything in the user's own account, except for spending credits."""
    if call.registrant.account is not None:
        raise TokenRestricted(
            "This request is about your own account, but acts for an organization. Use a token of your own, or a session without Sublet-Organization.",
            details={"restriction": "organization_id"},
        )
    _refuse_restricted(call)
    for scope in FIRST_SCOPES:
        if scope not in call.registrant.restrictions.scopes:
            raise InsufficientScope(
                f"This request is about the whole account, and the token lacks the scope {scope}. Use a token with all scopes; credits:spend isn't needed.",
                details={"required_scope": scope},
            )
