"""Handlers of the session and passkey endpoints, which extend the spec (docs/spec-choices.md, "Signing in")."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any

from sublet.accounts.model import Session
from sublet.credits.model import Outcome
from sublet.db import Tx
from sublet.errors import PasskeyNotFound
from sublet.http import response_structs
from sublet.http.endpoints import Answer, Call
from sublet.http.idempotency import write_once
from sublet.http.paging import read_page
from sublet.http.render import session_shape
from sublet.http.request_structs import NoBody, PageQuery, PasskeyBody
from sublet.http.session_cookie import CLEARED_COOKIE
from sublet.ids import Position
from sublet.sign_in import store
from sublet.sign_in.add_passkey import add_passkey, offer_passkey
from sublet.sign_in.end_session import CURRENT, end_other_sessions, end_session
from sublet.sign_in.model import Passkey
from sublet.sign_in.recovery import start_recovery, stop_recovery
from sublet.sign_in.remove_passkey import remove_passkey


@dataclass(frozen=True, slots=True)
class _Ended(Outcome):
    """An outcome with the number of sessions that ended. The number isn't stored, so a repeated request doesn't get it."""

    ended: int | None = None


async def list_sessions(call: Call[None, PageQuery]) -> Answer[response_structs.SessionsAnswer]:
    """List sessions.

    Returns the browsers in which the user is signed in, newest first.
    """
    idle = timedelta(hours=call.context.settings.session_idle_hours)
    user_id, current_id = call.registrant.user.id, _current_id(call)

    def is_live(session: Session, tx: Tx) -> bool:
        return session.expires_at > tx.now and session.last_used_at + idle > tx.now

    def find(
        tx: Tx, limit: int, after: Position | None
    ) -> Iterator[tuple[Position, response_structs.SessionShape]]:
        live = (each for each in store.list_sessions(tx, user_id, after) if is_live(each, tx))
        for each in islice(live, limit):
            yield Position(each.created_at, each.id), session_shape(each, current_id)

    items, page, headers = await read_page(call, "sessions", find)
    return Answer(response_structs.SessionsAnswer(sessions=items, page=page), headers)


async def end_session_(call: Call[NoBody, None]) -> Answer[response_structs.DoneAnswer]:
    """Sign out.

    Ends the session with this id; `current` is the session of the request. Suspended users may sign out too.
    """
    wanted, current_id = call.path["id"], _current_id(call)

    def verb(tx: Tx) -> Outcome:
        end_session(tx, call.actor(), wanted)
        return Outcome(call.registrant.user.id)

    done = await write_once(call, 200, verb)
    cleared = {"set-cookie": CLEARED_COOKIE} if wanted in (CURRENT, str(current_id)) else {}
    return Answer(response_structs.DoneAnswer(), done.headers | cleared, done.status)


async def end_other_sessions_(call: Call[NoBody, None]) -> Answer[response_structs.EndedSessionsAnswer]:
    """Sign out everywhere else.

    Ends all other sessions of the user; `ended` is their number. Suspended users may sign out too.
    """

    def verb(tx: Tx) -> Outcome:
        return _Ended(call.registrant.user.id, ended=end_other_sessions(tx, call.actor()))

    done = await write_once(call, 200, verb)
    ended = done.outcome.ended if isinstance(done.outcome, _Ended) else None
    return done.answer(response_structs.EndedSessionsAnswer(ended=ended))


async def list_passkeys(call: Call[None, None]) -> Answer[response_structs.PasskeysAnswer]:
    """List passkeys.

    Returns the user's passkeys, oldest first, and the recovery, if there is one.
    """
    return Answer(await call.context.db.read(_passkeys_answer, call))


async def offer_passkey_(call: Call[NoBody, None]) -> Answer[response_structs.OptionsAnswer]:
    """Add a passkey: get a challenge.

    Returns the options for `navigator.credentials.create`, valid for one passkey within five minutes, in this session only.
    Requires a sign-in within the last ten minutes.
    """

    def verb(tx: Tx) -> response_structs.OptionsAnswer:
        return response_structs.OptionsAnswer(public_key=offer_passkey(tx, call.actor(), call.client.site))

    return Answer(await call.context.db.write(verb))


async def add_passkey_(call: Call[PasskeyBody, None]) -> Answer[response_structs.PasskeyAnswer]:
    """Add a passkey.

    Send a `name` and the result of `navigator.credentials.create`. Mails the user. Requires a sign-in within the last ten minutes.
    """

    def verb(tx: Tx) -> Outcome:
        body, client = call.body, call.client
        return Outcome(
            add_passkey(tx, call.actor(), body.name, body.credential, client.site, client.public_url).id
        )

    def read(tx: Tx) -> Passkey:
        passkey = store.find_passkey(tx, done.outcome.id)
        if passkey is None:
            raise PasskeyNotFound(
                "This passkey was added earlier and has been removed since. See GET /passkeys."
            )
        return passkey

    done = await write_once(call, 201, verb)
    passkey = await call.context.db.read(read)
    return done.answer(response_structs.PasskeyAnswer(passkey=response_structs.PasskeyShape.of(passkey)))


async def remove_passkey_(call: Call[NoBody, None]) -> Answer[response_structs.DoneAnswer]:
    """Remove a passkey.

    Mails the user. Sessions that were signed in with the passkey stay. Requires a sign-in within the last ten minutes.
    """

    def verb(tx: Tx) -> Outcome:
        remove_passkey(tx, call.actor(), call.path["id"], call.client.public_url)
        return Outcome(call.registrant.user.id)

    done = await write_once(call, 200, verb)
    return done.answer(response_structs.DoneAnswer())


async def start_recovery_(call: Call[NoBody, None]) -> Answer[response_structs.PasskeysAnswer]:
    """Recover from lost passkeys.

    After 24 hours, and then for a week, a sign-in by mail counts as a sign-in with a passkey, so that the user can remove lost passkeys.
    Mails the user. A sign-in with a passkey stops the recovery. Requires a sign-in within the last ten minutes; by mail is enough.
    """

    def verb(tx: Tx) -> Outcome:
        return Outcome(start_recovery(tx, call.actor(), call.client.public_url).user_id)

    done = await write_once(call, 200, verb)
    return done.answer(await call.context.db.read(_passkeys_answer, call))


async def stop_recovery_(call: Call[NoBody, None]) -> Answer[response_structs.PasskeysAnswer]:
    """Stop a recovery.

    The passkeys stay. Any session of the user may stop it. Suspended users may stop it too.
    """

    def verb(tx: Tx) -> Outcome:
        stop_recovery(tx, call.actor(), call.client.public_url)
        return Outcome(call.registrant.user.id)

    done = await write_once(call, 200, verb)
    return done.answer(await call.context.db.read(_passkeys_answer, call))


def _current_id(call: Call[Any, Any]) -> int | None:
    return call.registrant.session.id if call.registrant.session is not None else None


def _passkeys_answer(tx: Tx, call: Call[Any, Any]) -> response_structs.PasskeysAnswer:
    user_id = call.registrant.user.id
    recovery = store.find_recovery(tx, user_id)
    is_open = recovery is not None and recovery.ends_at > tx.now
    return response_structs.PasskeysAnswer(
        passkeys=[response_structs.PasskeyShape.of(each) for each in store.list_passkeys(tx, user_id)],
        recovery=response_structs.RecoveryShape.of(recovery) if is_open else None,
    )
