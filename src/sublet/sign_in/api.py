"""The API of signing in: by mail, by passkey, and the sessions and passkeys of a user (docs/api.md, "Sign
in").
"""

from datetime import timedelta
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from sublet.accounts.api import ME_EXAMPLE, USER_EXAMPLE, OrganizationShape, UserShape, me_answer
from sublet.accounts.model import Session, User
from sublet.accounts.sessions import MAIL, SIGN_IN_METHODS
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.errors import (
    AccountSuspended,
    Conflict,
    OriginRefused,
    PasskeyNotFound,
    RateLimited,
    SessionNotFound,
    ValidationFailed,
)
from sublet.ids import Position
from sublet.operations import tags
from sublet.operations.call import Answer, Call, Context, OpenCall
from sublet.operations.client import CLEARED_COOKIE, Client, is_from_site, refuse_other_sites, set_cookie
from sublet.operations.idempotency import write_once
from sublet.operations.operation import (
    API,
    AUTH,
    FOR_OTHER_SESSIONS,
    Operations,
    Parameter,
    not_sensitive,
    sensitive,
)
from sublet.operations.paging import Paging
from sublet.operations.shapes import (
    NOW,
    PAGE,
    Body,
    Count,
    DeletedObjectAnswer,
    DeletedObjectShape,
    Id,
    Moment,
    NoBody,
    PageQuery,
    PageShape,
    Shape,
    Success,
    one_of,
)
from sublet.sign_in import store
from sublet.sign_in.codes import request_code
from sublet.sign_in.identify import identify_by_code, identify_by_passkey, passkey_refusal
from sublet.sign_in.model import IdentifiedUser, Passkey, SignedIn
from sublet.sign_in.passkeys import (
    add_passkey,
    offer_passkey,
    remove_passkey,
    start_recovery,
    stop_recovery,
)
from sublet.sign_in.sessions import CURRENT, end_other_sessions, end_session, open_session
from sublet.sign_in.webauthn_answers import SIGN_IN_CHALLENGE, new_challenge, use_options
from sublet.sign_up.codes import SIGN_IN, VALID_FOR
from sublet.sign_up.mailed_codes import code_refusal
from sublet.sign_up.store import find_signing_key

sessions = Operations(
    API, tags.SESSIONS, id=Parameter("The session's id, or `current` for the present session.", "3")
)

passkeys = Operations(API, tags.SESSIONS, id=Parameter("The passkey's id.", "3"))

open_api = Operations(AUTH, tags.SIGN_IN)

_SESSION = {
    "id": 3,
    "how": "mail",
    "created_at": NOW,
    "signed_in_at": NOW,
    "expires_at": "2026-12-05T09:30:00.000000Z",
    "last_used_at": NOW,
    "last_used_from": "192.0.2.7",
    "user_agent": "Mozilla/5.0 …",
    "current": True,
}

_PASSKEY = {"id": 3, "name": "phone", "created_at": NOW, "last_used_at": None}

_CREDENTIAL = {"id": "AQID", "rawId": "AQID", "type": "public-key", "response": {"clientDataJSON": "e30"}}


class SessionShape(Shape):
    """A session of a browser.

    `last_used_at` and `last_used_from` may be up to an hour old. `current` marks the session of the request.
    """

    id: Id
    how: Annotated[str, one_of(SIGN_IN_METHODS)]
    created_at: Moment
    signed_in_at: Moment
    expires_at: Moment
    last_used_at: Moment
    last_used_from: str | None
    user_agent: str
    current: bool


class SessionsAnswer(Success, kw_only=True):
    """The user's sessions, newest first."""

    sessions: list[SessionShape]
    page: PageShape


class SignedInAnswer(Success, kw_only=True):
    """The user who has signed in, and the session. The session's secret is in the cookie."""

    user: UserShape
    organization: OrganizationShape
    session: SessionShape


class EndedSessionsAnswer(Success, kw_only=True):
    """The number of sessions that have ended; null in a repeated answer."""

    ended: Count | None


class OptionsAnswer(Success, kw_only=True):
    """The options that a browser needs to create or use a passkey."""

    public_key: Annotated[
        dict[str, Any],
        Meta(
            description="JSON for `PublicKeyCredential.parseRequestOptionsFromJSON` or "
            "`parseCreationOptionsFromJSON`."
        ),
    ]


class PasskeyShape(Shape):
    """A passkey."""

    id: Id
    name: str
    created_at: Moment
    last_used_at: Moment | None


class RecoveryShape(Shape):
    """A recovery. From `ready_at` to `ends_at` a sign-in by mail counts as a sign-in with a passkey."""

    asked_at: Moment
    ready_at: Moment
    ends_at: Moment


class PasskeysAnswer(Success, kw_only=True):
    """The user's passkeys, oldest first, and the recovery, null if there is none."""

    passkeys: list[PasskeyShape]
    recovery: RecoveryShape | None


class PasskeyAnswer(Success, kw_only=True):
    """One passkey."""

    passkey: PasskeyShape


class CodeSentAnswer(Success, kw_only=True):
    """A code was mailed, if the address may get one."""

    message: str
    expires_in_seconds: Annotated[int, Meta(ge=1, description="The seconds for which the code is valid.")]


class ConfirmSignUpBody(Body):
    """A mailed code: `email` and `code`, or the `token` of the link."""

    email: Annotated[str, Meta(max_length=254)] | None = None
    code: Annotated[str, Meta(max_length=20, description="Six digits.")] | None = None
    token: Annotated[str, Meta(max_length=100, description="The `token` of the link in the mail.")] | None = (
        None
    )


class SignInBody(Body):
    """A request to sign in by mail."""

    required_members: ClassVar[tuple[str, ...]] = ("email",)

    email: Annotated[str, Meta(max_length=254, description="The address that gets the code.")] | None = None


class CredentialBody(Body):
    """The answer of an authenticator."""

    required_members: ClassVar[tuple[str, ...]] = ("credential",)

    credential: (
        Annotated[
            dict[str, Any],
            Meta(description="The browser's `PublicKeyCredential`, converted by its `toJSON()`."),
        ]
        | None
    ) = None


class PasskeyBody(CredentialBody):
    """A new passkey."""

    required_members: ClassVar[tuple[str, ...]] = ("name", "credential")

    name: (
        Annotated[
            str,
            Meta(
                min_length=1, max_length=200, description="A name by which the user recognizes the passkey."
            ),
        ]
        | None
    ) = None


def session_shape(session: Session, current_id: int | None) -> SessionShape:
    """Return the shape of a session for /sessions."""
    names = (name for name in SessionShape.__struct_fields__ if name != "current")
    return SessionShape(current=session.id == current_id, **{name: getattr(session, name) for name in names})


class _Ended(Outcome, frozen=True):
    """An outcome with the number of sessions that ended.

    The number isn't stored, so a repeated request doesn't get it.
    """

    ended: int | None = None


@open_api.write(
    "POST",
    "/auth/sessions",
    None,
    (ValidationFailed, RateLimited),
    status=202,
    gate=not_sensitive("is the beginning of a sign-in"),
    told="the user",
    example_body={"email": "ada@example.org"},
    example={
        "message": "If this address can get mail, a code is on its way to it.",
        "expires_in_seconds": 900,
    },
)
async def request_sign_in(call: OpenCall[SignInBody]) -> Answer[CodeSentAnswer]:
    """Sign in: get a code by mail.

    Mails a code of six digits and a link, valid for 15 minutes. The answer doesn't tell whether the address
    has an account.
    """
    client = call.client
    await call.context.db.write(request_code, call.body.email or "", client.network, client.public_url)
    sentence = "If this address can get mail, a code is on its way to it."
    seconds = int(VALID_FOR[SIGN_IN].total_seconds())
    return Answer(CodeSentAnswer(message=sentence, expires_in_seconds=seconds))


@open_api.write(
    "POST",
    "/auth/sessions/confirm",
    None,
    (OriginRefused, ValidationFailed),
    status=201,
    gate=not_sensitive("is the sign-in"),
    told="the user, if the operator made the link",
    example_body={"email": "ada@example.org", "code": "123456"},
    example={"user": USER_EXAMPLE, "organization": ME_EXAMPLE["organization"], "session": _SESSION},
)
async def confirm_sign_in(call: OpenCall[ConfirmSignUpBody]) -> Answer[SignedInAnswer]:
    """Sign in: enter the code.

    Send `email` and `code`, or the `token` of the link. Sets the cookie of a session. If the browser already
    has a session of this user, the session gets a new secret and counts as signed in now.
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


@open_api.write(
    "POST",
    "/auth/passkeys/challenge",
    gate=not_sensitive("is the beginning of a sign-in"),
    example_body={},
    example={"public_key": {"challenge": "mVlj…", "rpId": "names.example.net"}},
)
async def challenge_passkey(call: OpenCall[NoBody]) -> Answer[OptionsAnswer]:
    """Sign in with a passkey: get a challenge.

    Returns the options for `navigator.credentials.get`, valid for one sign-in within five minutes. The
    options name no user and no passkey.
    """
    key = await call.context.db.read(find_signing_key)
    found = new_challenge(key, SIGN_IN_CHALLENGE, call.context.db.now())
    return Answer(OptionsAnswer(public_key=use_options(call.client.site, found)))


@open_api.write(
    "POST",
    "/auth/passkeys/confirm",
    None,
    (OriginRefused, ValidationFailed),
    status=201,
    gate=not_sensitive("is the sign-in"),
    told="the user, if the network is new",
    example_body={"credential": _CREDENTIAL},
    example={"user": USER_EXAMPLE, "organization": ME_EXAMPLE["organization"], "session": _SESSION},
)
async def confirm_passkey(call: OpenCall[CredentialBody]) -> Answer[SignedInAnswer]:
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


def _answer(call: OpenCall[Any], done: SignedIn) -> Answer[SignedInAnswer]:
    session = done.session
    me = me_answer(done.member, None)
    answer = SignedInAnswer(
        user=me.user, organization=me.organization, session=session_shape(session, session.id)
    )
    return Answer(answer, cookie_headers(call, done))


def open_for_page(tx: Tx, call: OpenCall[Any], user: User) -> SignedIn | None:
    """Sign in a user who has just opened an account, if a page of the service sent the request; otherwise
    return None.
    """
    if not is_from_site(call.client.fields, call.client.site):
        return None
    return _open(tx, IdentifiedUser(user, MAIL), call.context, call.client, call.request_id)


def cookie_headers(call: OpenCall[Any], done: SignedIn | None) -> dict[str, str]:
    """Return the header that sets the cookie of a session; empty without a session."""
    if done is None:
        return {}
    return {"set-cookie": set_cookie(done.secret, done.session.expires_at, call.context.db.now())}


@sessions.get(
    "/sessions",
    needs_session=True,
    example={"sessions": [_SESSION], "page": PAGE},
)
def list_sessions(tx: Tx, call: Call[None, PageQuery]) -> Answer[SessionsAnswer]:
    """List sessions.

    Returns the browsers in which the user is signed in, newest first.
    """
    idle = timedelta(hours=call.context.settings.session_idle_hours)
    current_id = _current_id(call)
    paging = Paging[SessionShape](call, "sessions")
    found = (
        each
        for each in store.list_sessions(tx, call.registrant.user.id, paging.after)
        if each.expires_at > tx.now and each.last_used_at + idle > tx.now
    )
    items, page, headers = paging.take(
        (Position(each.created_at, each.id), session_shape(each, current_id)) for each in found
    )
    return Answer(SessionsAnswer(sessions=items, page=page), headers)


@sessions.write(
    "DELETE",
    "/sessions",
    needs_session=True,
    gate=sensitive("ends others' sessions"),
    example_body={},
    example={"ended": 2},
)
async def end_other_sessions_(call: Call[NoBody, None]) -> Answer[EndedSessionsAnswer]:
    """Sign out everywhere else.

    Ends all other sessions of the user; `ended` is their number. Suspended users may sign out too.
    """

    def verb(tx: Tx) -> Outcome:
        return _Ended(call.registrant.user.id, ended=end_other_sessions(tx, call.actor()))

    done = await write_once(call, verb)
    ended = done.outcome.ended if isinstance(done.outcome, _Ended) else None
    return done.answer(EndedSessionsAnswer(ended=ended))


@sessions.write(
    "DELETE",
    "/sessions/{id}",
    None,
    (SessionNotFound,),
    needs_session=True,
    gate=sensitive("ends another session", checked=FOR_OTHER_SESSIONS),
    example_body={},
    example={"deleted": {"id": 3}},
)
async def end_session_(call: Call[NoBody, None]) -> Answer[DeletedObjectAnswer]:
    """Sign out.

    Ends the session with this id; `current` is the session of the request. Suspended users may sign out too.
    """
    wanted, current_id = call.path["id"], _current_id(call)

    def verb(tx: Tx) -> Outcome:
        return Outcome(end_session(tx, call.actor(), wanted).id)

    done = await write_once(call, verb)
    cleared = {"set-cookie": CLEARED_COOKIE} if wanted in (CURRENT, str(current_id)) else {}
    return Answer(_deleted(done.outcome), done.headers | cleared, done.status)


def _deleted(outcome: Outcome) -> DeletedObjectAnswer:
    return DeletedObjectAnswer(deleted=DeletedObjectShape(id=outcome.id))


@passkeys.get(
    "/passkeys",
    needs_session=True,
    example={"passkeys": [_PASSKEY], "recovery": None},
)
def list_passkeys(tx: Tx, call: Call[None, None]) -> PasskeysAnswer:
    """List passkeys.

    Returns the user's passkeys, oldest first, and the recovery, if there is one.
    """
    return _passkeys_answer(tx, call)


@passkeys.write(
    "POST",
    "/passkeys/challenge",
    None,
    (AccountSuspended, Conflict),
    needs_session=True,
    gate=sensitive("creates a credential"),
    example_body={},
    example={"public_key": {"challenge": "mVlj…", "rp": {"id": "names.example.net"}}},
)
async def offer_passkey_(call: Call[NoBody, None]) -> Answer[OptionsAnswer]:
    """Add a passkey: get a challenge.

    Returns the options for `navigator.credentials.create`, valid for one passkey within five minutes, in this
    session only. Requires a sign-in within the last ten minutes.
    """

    def verb(tx: Tx) -> OptionsAnswer:
        return OptionsAnswer(public_key=offer_passkey(tx, call.actor(), call.client.site))

    return Answer(await call.context.db.write(verb))


@passkeys.write(
    "POST",
    "/passkeys",
    None,
    (AccountSuspended, Conflict, ValidationFailed, PasskeyNotFound),
    status=201,
    needs_session=True,
    gate=sensitive("creates a credential"),
    told="the user",
    example_body={"name": "phone", "credential": _CREDENTIAL},
    example={"passkey": _PASSKEY},
)
async def add_passkey_(call: Call[PasskeyBody, None]) -> Answer[PasskeyAnswer]:
    """Add a passkey.

    Send a `name` and the result of `navigator.credentials.create`. Mails the user. Requires a sign-in within
    the last ten minutes.
    """

    def verb(tx: Tx) -> Outcome:
        body, client = call.body, call.client
        return Outcome(
            add_passkey(tx, call.actor(), body.name, body.credential, client.site, client.public_url).id
        )

    def read(tx: Tx) -> Passkey:
        passkey = store.find_passkey(tx, done.outcome.id)
        if passkey is None:
            raise PasskeyNotFound("This passkey was added earlier and has been removed since. Add it again.")
        return passkey

    done = await write_once(call, verb)
    passkey = await call.context.db.read(read)
    return done.answer(PasskeyAnswer(passkey=PasskeyShape.of(passkey)))


@passkeys.write(
    "POST",
    "/passkeys/recovery",
    None,
    (AccountSuspended, Conflict),
    needs_session=True,
    gate=sensitive("starts to make a sign-in by mail enough", any_method=True),
    told="the user",
    example_body={},
    example={
        "passkeys": [_PASSKEY],
        "recovery": {
            "asked_at": NOW,
            "ready_at": "2026-11-22T09:30:00.000000Z",
            "ends_at": "2026-11-29T09:30:00.000000Z",
        },
    },
)
async def start_recovery_(call: Call[NoBody, None]) -> Answer[PasskeysAnswer]:
    """Recover from lost passkeys.

    After 24 hours, and then for a week, a sign-in by mail counts as a sign-in with a passkey, so that the
    user can remove lost passkeys. Mails the user. A sign-in with a passkey stops the recovery. Requires a
    sign-in within the last ten minutes; by mail is enough.
    """

    def verb(tx: Tx) -> Outcome:
        return Outcome(start_recovery(tx, call.actor(), call.client.public_url).user_id)

    done = await write_once(call, verb)
    return done.answer(await call.context.db.read(_passkeys_answer, call))


@passkeys.write(
    "DELETE",
    "/passkeys/recovery",
    None,
    (Conflict,),
    needs_session=True,
    gate=not_sensitive(
        "only keeps the passkeys in effect; the user must be able to stop a thief from any browser"
    ),
    told="the user",
    example_body={},
    example={"passkeys": [_PASSKEY], "recovery": None},
)
async def stop_recovery_(call: Call[NoBody, None]) -> Answer[PasskeysAnswer]:
    """Stop a recovery.

    The passkeys stay. Any session of the user may stop it. Suspended users may stop it too.
    """

    def verb(tx: Tx) -> Outcome:
        stop_recovery(tx, call.actor(), call.client.public_url)
        return Outcome(call.registrant.user.id)

    done = await write_once(call, verb)
    return done.answer(await call.context.db.read(_passkeys_answer, call))


def _current_id(call: Call[Any, Any]) -> int | None:
    return call.registrant.session.id if call.registrant.session is not None else None


def _passkeys_answer(tx: Tx, call: Call[Any, Any]) -> PasskeysAnswer:
    user_id = call.registrant.user.id
    recovery = store.find_recovery(tx, user_id)
    is_open = recovery is not None and recovery.ends_at > tx.now
    return PasskeysAnswer(
        passkeys=[PasskeyShape.of(each) for each in store.list_passkeys(tx, user_id)],
        recovery=RecoveryShape.of(recovery) if is_open else None,
    )


@passkeys.write(
    "DELETE",
    "/passkeys/{id}",
    None,
    (AccountSuspended, PasskeyNotFound),
    needs_session=True,
    gate=sensitive("removes a credential, so that a weaker one is enough"),
    told="the user",
    example_body={},
    example={"deleted": {"id": 3}},
)
async def remove_passkey_(call: Call[NoBody, None]) -> Answer[DeletedObjectAnswer]:
    """Remove a passkey.

    Mails the user. Sessions that were signed in with the passkey stay. Requires a sign-in within the last ten
    minutes.
    """

    def verb(tx: Tx) -> Outcome:
        return Outcome(remove_passkey(tx, call.actor(), call.path["id"], call.client.public_url).id)

    done = await write_once(call, verb)
    return done.answer(_deleted(done.outcome))
