"""The API of the own account: data, reminders, address, activity, export, deletion (docs/spec-choices.md,
"Activity").
"""

from collections.abc import AsyncIterator, Callable
from datetime import datetime
from functools import partial
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from sublet.accounts.find import find_member
from sublet.accounts.model import Member, Token, User
from sublet.accounts.set_reminders import set_reminders
from sublet.audit import ActivityFilter
from sublet.credits.model import Outcome
from sublet.credits.store import find_balance
from sublet.db import Tx
from sublet.errors import (
    AccountSuspended,
    Conflict,
    InsufficientScope,
    RateLimited,
    TokenRestricted,
    ValidationFailed,
)
from sublet.ids import Position
from sublet.operations import tags
from sublet.operations.call import Answer, Call
from sublet.operations.idempotency import write_once, write_parts_before
from sublet.operations.operation import API, Operations, not_sensitive, sensitive
from sublet.operations.paging import Paging
from sublet.operations.shapes import (
    NEXT_YEAR,
    NOW,
    PAGE,
    Body,
    Count,
    Credits,
    HostName,
    Id,
    Moment,
    PageQuery,
    PageShape,
    Rows,
    Shape,
    Success,
    one_of,
)
from sublet.registry.delete_user import delete_own_user, trash_some_own_names
from sublet.registry.export_store import ROWS_AT_ONCE, SECTIONS, Section, SortKey, next_part
from sublet.restrictions import SCOPES
from sublet.sign_in.change_account import AccountChange, change_account, confirm_email, count_attempt
from sublet.sign_up.sign_up import FIRST_SCOPES
from sublet.subdomains.activity import BY, list_activity

api = Operations(API, tags.ACCOUNT)

USER_EXAMPLE = {"id": 1, "email": "ada@example.org", "name": "Ada", "reminders": True, "created_at": NOW}

ME_EXAMPLE = {
    "user": USER_EXAMPLE,
    "organization": {"id": 1, "name": "Ada's Works", "slug": "ada-s-works", "created_at": NOW},
    "token": {
        "id": 4,
        "name": "laptop",
        "scopes": ["account:read", "subdomains:read", "subdomains:write"],
        "created_at": NOW,
        "expires_at": NEXT_YEAR,
        "last_used_at": NOW,
    },
}

_ACTIVITY: dict[str, Any] = {
    "id": 42,
    "at": NOW,
    "action": "subdomain.register",
    "by": "user",
    "token_id": 7,
    "token_name": "ci",
    "address": "198.51.100.7",
    "object_type": "subdomain",
    "object_id": 17,
    "subdomain": "blog.example.net",
    "before": None,
    "after": {"fqdn": "blog.example.net", "registration_type": "free", "charged_credits": 0},
}


class UserShape(Shape):
    """The user of the token. `reminders` is true if the user gets mail about dates of the names."""

    id: Id
    email: str
    name: str
    reminders: bool
    created_at: Moment


class OrganizationShape(Shape):
    """The organization that the user belongs to."""

    id: Id
    name: str
    slug: str
    created_at: Moment


class ActivityShape(Shape):
    """An event of the account.

    `token_id`, `token_name` and `address` are null unless the user's own request caused it.
    """

    id: Id
    at: Moment
    action: str
    by: Annotated[str, one_of(BY)]
    token_id: Id | None
    token_name: str | None
    address: str | None
    object_type: str
    object_id: Id
    subdomain: HostName | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class AccountShape(Shape):
    """The account in an export."""

    id: Id
    email: str
    name: str
    reminders: bool
    free_quota: Count | None
    suspended_at: Moment | None
    created_at: Moment
    signed_up_at: Moment | None
    organization: OrganizationShape
    credit_balance: Credits


class ExportBeginning(Success, kw_only=True):
    """The beginning of an export, without its lists."""

    account: AccountShape


class ExportAnswer(ExportBeginning, kw_only=True):
    """All that the registry stores about the user.

    The lists are oldest first, the activity is newest first.
    """

    subdomains: Rows
    terms: Rows
    payments: Rows
    coupons: Rows
    tokens: Rows
    sessions: Rows
    passkeys: Rows
    recoveries: Rows
    memberships: Rows
    transfers: Rows
    tickets: Rows
    messages: Rows
    activity: list[ActivityShape]


class DeletedUserShape(Shape):
    """The user that was deleted."""

    id: Id


class DeletedMeAnswer(Success, kw_only=True):
    """The account is deleted, and its tokens are revoked."""

    deleted: DeletedUserShape


class TokenShape(Shape):
    """The token of the request.

    `last_used_at` may be up to an hour old, and is null until the first use is stored.
    """

    id: Id
    name: str
    scopes: list[Annotated[str, one_of(SCOPES)]]
    created_at: Moment
    expires_at: Moment | None
    last_used_at: Moment | None


class ActivityAnswer(Success, kw_only=True):
    """The events of the account, newest first."""

    activity: list[ActivityShape]
    page: PageShape


class MeAnswer(Success, kw_only=True):
    """The user and organization that the token identifies, and the token. With a session `token` is null."""

    user: UserShape
    organization: OrganizationShape
    token: TokenShape | None


class RemindersBody(Body):
    """The setting of reminders, which are mails about the dates of the user's names."""

    required_members: ClassVar[tuple[str, ...]] = ("enabled",)

    enabled: Annotated[bool, Meta(description="True turns reminders on, false off.")] | None = None


class DeleteMeBody(Body):
    """The deletion of the account."""

    confirm: Annotated[str, Meta(max_length=254, description="The user's own e-mail address.")] | None = None


class AccountBody(Body):
    """A change of the account. A member that is left out keeps its value."""

    name: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    email: Annotated[str, Meta(max_length=254, description="The new address, which gets a code.")] | None = (
        None
    )
    reminders: (
        Annotated[bool, Meta(description="True if the user gets mail about dates of the names.")] | None
    ) = None


class EmailCodeBody(Body):
    """The code that was mailed to a new address."""

    required_members: ClassVar[tuple[str, ...]] = ("code",)

    code: Annotated[str, Meta(max_length=20, description="Six digits.")] | None = None


class ActivityQuery(PageQuery, kw_only=True):
    """The filters of the activity."""

    action: (
        Annotated[str, Meta(max_length=64, description="Only this action, such as subdomain.renew.")] | None
    ) = None
    token_id: Annotated[int, Meta(ge=1, description="Only requests with this token.")] | None = None
    since: Annotated[datetime, Meta(tz=True, description="RFC 3339.")] | None = None
    until: (
        Annotated[datetime, Meta(tz=True, description="RFC 3339. Only events before this instant.")] | None
    ) = None


def me_answer(member: Member, token: Token | None) -> MeAnswer:
    """Return the answer with a user, the user's organization, and the token of the request without its
    secret; None with a session.
    """
    return MeAnswer(
        user=UserShape.of(member.user),
        organization=OrganizationShape.of(member.organization),
        token=TokenShape.of(token) if token is not None else None,
    )


Part = tuple[bytes, Any]
"""The encoded items of a part of a list, and the key with which the next part continues; None after the last
part.
"""


@api.get(
    "/me",
    example=ME_EXAMPLE,
)
async def me(call: Call[None, None]) -> Answer[MeAnswer]:
    """Get the user, the organization and the token of the request.

    Returns the user and the organization that the token identifies, and the token with its scopes and dates.
    With a session `token` is null.
    """
    registrant = call.registrant
    return Answer(me_answer(Member(registrant.user, registrant.organization), registrant.token))


@api.write(
    "PUT",
    "/me/reminders",
    "subdomains:write",
    (AccountSuspended, TokenRestricted, ValidationFailed),
    gate=not_sensitive("changes no right; mails about security are sent regardless"),
    example_body={"enabled": False},
    example={**ME_EXAMPLE, "user": {**USER_EXAMPLE, "reminders": False}},
)
async def set_reminders_(call: Call[RemindersBody, None]) -> Answer[MeAnswer]:
    """Turn reminders on or off.

    With `enabled`: true the user gets mail before dates of the names, such as an expiry. Answers to tickets
    are always mailed.
    """

    def verb(tx: Tx) -> Outcome:
        return Outcome(set_reminders(tx, call.actor(), call.body.enabled).user.id)

    return await _change_user(call, verb)


@api.get(
    "/me/export",
    "tokens:write",
    (TokenRestricted, InsufficientScope),
    example={
        "account": {
            **USER_EXAMPLE,
            "free_quota": None,
            "suspended_at": None,
            "signed_up_at": NOW,
            "organization": ME_EXAMPLE["organization"],
            "credit_balance": 100,
        },
        **{name: [] for name in SECTIONS},
        "subdomains": [{"id": 17, "fqdn": "blog.example.net", "registration_type": "free"}],
        "activity": [_ACTIVITY],
    },
)
async def export(call: Call[None, None]) -> Answer[ExportAnswer]:
    """Export the account.

    Returns all that the registry stores about the user in one JSON document: account, names (also trashed and
    purged), payments, coupons, tokens without secrets, transfers, tickets with their messages, activity. The
    answer is streamed.
    """
    _require_all_rights(call)
    user_id = call.registrant.user.id

    def read(tx: Tx) -> AccountShape:
        member = find_member(tx, user_id)
        return AccountShape(
            **{name: getattr(member.user, name) for name in _OF_USER},
            organization=OrganizationShape.of(member.organization),
            credit_balance=find_balance(tx, user_id),
        )

    account = await call.context.db.read(read)
    head = ExportBeginning(account=account)
    named = {"content-disposition": f'attachment; filename="account-{user_id}.json"'}
    return Answer(head, named, parts=_parts(call, head))  # type: ignore[arg-type] # `parts` has the lists


_OF_USER = ("id", "email", "name", "reminders", "free_quota", "suspended_at", "created_at", "signed_up_at")


async def _parts(call: Call[Any, Any], head: ExportBeginning) -> AsyncIterator[bytes]:
    """Yield the JSON of an export.

    Each part of a list is read in its own transaction, and encoded on the same thread.
    """
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


@api.write(
    "DELETE",
    "/me",
    "tokens:write",
    (
        TokenRestricted,
        InsufficientScope,
        AccountSuspended,
        Conflict,
        ValidationFailed,
    ),
    gate=sensitive("deletes the account"),
    told="the user",
    example_body={"confirm": "ada@example.org"},
    example={"deleted": {"id": 1}},
)
async def delete_me(call: Call[DeleteMeBody, None]) -> Answer[DeletedMeAnswer]:
    """Delete the account.

    Requires the user's own address as `confirm`. The names go to the trash, the credits are lost, all tokens
    are revoked, and address, name and texts are erased permanently. Without `confirm` the answer (409) lists
    what would be lost.
    """
    _require_all_rights(call)
    actor, confirm = call.actor(), call.body.confirm
    await write_parts_before(call, trash_some_own_names, actor, confirm)
    done = await write_once(call, delete_own_user, actor, confirm)
    deleted = DeletedUserShape(id=done.outcome.id)
    return done.answer(DeletedMeAnswer(deleted=deleted))


def _refuse_restricted(call: Call[Any, Any]) -> None:
    """Raise `TokenRestricted` if the token is restricted to some names."""
    if not call.actor().restrictions.allows_all_names:
        raise TokenRestricted(
            "This request is about the whole account, and the token is restricted to some names. Use a "
            "token for all names.",
            details={"restriction": "names"},
        )


def _require_all_rights(call: Call[Any, Any]) -> None:
    """Raise unless the token may read and change everything in the user's own account, except for spending
    credits.
    """
    if call.registrant.account is not None:
        raise TokenRestricted(
            "This request is about your own account, but acts for an organization. Use a token of your "
            "own, or a session without Sublet-Organization.",
            details={"restriction": "organization_id"},
        )
    _refuse_restricted(call)
    for scope in FIRST_SCOPES:
        if scope not in call.registrant.restrictions.scopes:
            raise InsufficientScope(
                f"This request is about the whole account, and the token lacks the scope {scope}. Use a "
                "token with all scopes; credits:spend isn't needed.",
                details={"required_scope": scope},
            )


@api.get(
    "/activity",
    "tokens:write",
    (TokenRestricted,),
    example={
        "activity": [_ACTIVITY],
        "page": PAGE,
    },
)
def activity(tx: Tx, call: Call[None, ActivityQuery]) -> Answer[ActivityAnswer]:
    """List the activity of the account.

    Returns what the user did, with token and address, and what the operator and the system did to the
    account, its names, tokens and tickets. Newest first. Addresses are stored for 90 days.
    """
    _refuse_restricted(call)
    query = call.query
    wanted = ActivityFilter(query.action, query.token_id, query.since, query.until)
    user_id, account = call.registrant.user.id, call.registrant.account
    account_id = account.id if account is not None else None
    paging = Paging[ActivityShape](call, "activity")
    before_id = paging.after.id if paging.after is not None else None
    found = list_activity(tx, user_id, wanted, paging.limit, before_id, account_id=account_id)
    items, page, headers = paging.take((Position(each.at, each.id), ActivityShape.of(each)) for each in found)
    return Answer(ActivityAnswer(activity=items, page=page), headers)


@api.write(
    "PATCH",
    "/me",
    None,
    (AccountSuspended, ValidationFailed, RateLimited),
    needs_session=True,
    gate=sensitive("changes the address, which is a credential"),
    told="the user, at the present and the new address, if that changes",
    example_body={"name": "Ada L.", "email": "lovelace@example.org"},
    example={**ME_EXAMPLE, "user": {**USER_EXAMPLE, "name": "Ada L."}, "token": None},
)
async def change_account_(call: Call[AccountBody, None]) -> Answer[MeAnswer]:
    """Change the account.

    `name` and `reminders` change at once. A new `email` requires a sign-in within the last ten minutes. The
    new address gets a code for POST /me/email; the current address gets a notice.
    """

    def verb(tx: Tx) -> Outcome:
        body = call.body
        change = AccountChange(body.name, body.email, body.reminders)
        return Outcome(change_account(tx, call.actor(), change, call.client.public_url).user.id)

    return await _change_user(call, verb)


@api.write(
    "POST",
    "/me/email",
    None,
    (AccountSuspended, ValidationFailed),
    needs_session=True,
    gate=not_sensitive(
        "the mailed code proves the new address, and the gate was passed before it was mailed"
    ),
    told="the user, at the former address",
    example_body={"code": "123456"},
    example={**ME_EXAMPLE, "user": {**USER_EXAMPLE, "email": "lovelace@example.org"}, "token": None},
)
async def confirm_email_(call: Call[EmailCodeBody, None]) -> Answer[MeAnswer]:
    """Change the address: enter the code.

    Takes the `code` from the mail to the new address. The former address gets a notice.
    """

    def verb(tx: Tx) -> Outcome:
        return Outcome(confirm_email(tx, call.actor(), call.body.code, call.client.public_url).user.id)

    await call.context.db.write(count_attempt, call.actor(), call.client.public_url)
    return await _change_user(call, verb)


async def _change_user(call: Call[Any, None], verb: Callable[[Tx], Outcome]) -> Answer[MeAnswer]:
    done = await write_once(call, verb)
    member = await call.context.db.read(find_member, done.outcome.id)
    return done.answer(me_answer(member, call.registrant.token))
