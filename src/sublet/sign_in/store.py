"""The SQL of the verbs that change sessions, passkeys and recoveries.

The queries that authenticate requests are in accounts.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import asdict
from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from sublet.accounts.model import Recovery, Session
from sublet.accounts.session_store import passkeys, recoveries, sessions
from sublet.db import Tx, delete_oldest
from sublet.ids import Position
from sublet.schema import older, violates
from sublet.sign_in.devices import store as device_store
from sublet.sign_in.model import Passkey

_SESSION = tuple(sessions.c[name] for name in Session.__struct_fields__)
_PASSKEY = tuple(passkeys.c[name] for name in Passkey.__struct_fields__)
_RECOVERY = tuple(recoveries.c[name] for name in Recovery.__struct_fields__)


class PasskeyTaken(Exception):  # noqa: N818 - verbs turn it into a refusal
    """A passkey with this credential id is stored already."""


def insert_session(tx: Tx, user_id: int, digest: str, **values: object) -> Session:
    """Add a session by the digest of its secret."""
    row = {"user_id": user_id, "digest": digest, "created_at": tx.now, **values}
    return Session(*tx.connection.execute(insert(sessions).values(**row).returning(*_SESSION)).one())


def replace_session_secret(tx: Tx, session_id: int, digest: str, **values: object) -> Session:
    """Store the digest of a session's new secret, and change other columns.

    The former secret becomes invalid.
    """
    changed = update(sessions).where(sessions.c.id == session_id).values(digest=digest, **values)
    return Session(*tx.connection.execute(changed.returning(*_SESSION)).one())


def set_sign_in_method(tx: Tx, session_id: int, how: str) -> None:
    """Store the sign-in method of a session."""
    tx.connection.execute(update(sessions).where(sessions.c.id == session_id).values(how=how))


def lock_session_by_digest(tx: Tx, digest: str) -> Session | None:
    """Return the session whose secret has this digest, or None, and lock it."""
    query = select(*_SESSION).where(sessions.c.digest == digest).with_for_update()
    row = tx.connection.execute(query).one_or_none()
    return Session(*row) if row is not None else None


def find_session(tx: Tx, session_id: int) -> Session | None:
    """Return the session with this id, or None."""
    row = tx.connection.execute(select(*_SESSION).where(sessions.c.id == session_id)).one_or_none()
    return Session(*row) if row is not None else None


def list_sessions(tx: Tx, user_id: int, after: Position | None = None) -> Iterator[Session]:
    """Yield a user's sessions after a position, the newest first, including idle and expired sessions."""
    query = select(*_SESSION).where(sessions.c.user_id == user_id)
    if after is not None:
        query = query.where(older(sessions.c.created_at, sessions.c.id, after))
    for row in tx.connection.execute(query.order_by(sessions.c.created_at.desc(), sessions.c.id.desc())):
        yield Session(*row)


def has_session_from(tx: Tx, user_id: int, network: str) -> bool:
    """True if a user has a session, which may be idle or expired, that was signed in from a network."""
    of = (sessions.c.user_id == user_id) & (sessions.c.network == network)
    return tx.connection.execute(select(sessions.c.id).where(of).limit(1)).first() is not None


def delete_session(tx: Tx, session_id: int) -> None:
    """Delete a session, which ends it."""
    tx.connection.execute(delete(sessions).where(sessions.c.id == session_id))


def insert_passkey(tx: Tx, user_id: int, **values: object) -> Passkey:
    """Add a passkey.

    Raises:
        PasskeyTaken: this or another user has a passkey with this credential id.
    """
    row = {"user_id": user_id, "created_at": tx.now, **values}
    try:
        with tx.savepoint():
            return Passkey(*tx.connection.execute(insert(passkeys).values(**row).returning(*_PASSKEY)).one())
    except IntegrityError as error:
        if violates(error, "uq_passkeys_credential_id"):
            raise PasskeyTaken from error
        raise


def list_passkeys(tx: Tx, user_id: int) -> Sequence[Passkey]:
    """Return a user's passkeys, the oldest first."""
    query = select(*_PASSKEY).where(passkeys.c.user_id == user_id).order_by(passkeys.c.id)
    return [Passkey(*row) for row in tx.connection.execute(query)]


def find_passkey(tx: Tx, passkey_id: int) -> Passkey | None:
    """Return the passkey with this id, or None."""
    row = tx.connection.execute(select(*_PASSKEY).where(passkeys.c.id == passkey_id)).one_or_none()
    return Passkey(*row) if row is not None else None


def find_by_credential_id(tx: Tx, credential_id: str) -> Passkey | None:
    """Return the passkey with this credential id, or None."""
    query = select(*_PASSKEY).where(passkeys.c.credential_id == credential_id)
    row = tx.connection.execute(query).one_or_none()
    return Passkey(*row) if row is not None else None


def lock_passkey(tx: Tx, passkey_id: int) -> Passkey | None:
    """Return the passkey with this id, and lock it. Return None if it was deleted. Lock its user first."""
    query = select(*_PASSKEY).where(passkeys.c.id == passkey_id).with_for_update()
    row = tx.connection.execute(query).one_or_none()
    return Passkey(*row) if row is not None else None


def count_passkeys(tx: Tx, user_id: int) -> int:
    """Return the number of a user's passkeys."""
    query = select(func.count()).select_from(passkeys).where(passkeys.c.user_id == user_id)
    return int(tx.connection.execute(query).scalar_one())


def update_passkey_use(tx: Tx, passkey_id: int, sign_count: int) -> None:
    """Store that a passkey was used now, and its authenticator's count of uses."""
    used = {"sign_count": sign_count, "last_used_at": tx.now}
    tx.connection.execute(update(passkeys).where(passkeys.c.id == passkey_id).values(**used))


def delete_passkey(tx: Tx, passkey_id: int) -> None:
    """Delete a passkey."""
    tx.connection.execute(delete(passkeys).where(passkeys.c.id == passkey_id))


def find_recovery(tx: Tx, user_id: int) -> Recovery | None:
    """Return a user's recovery, even if it has ended, or None."""
    row = tx.connection.execute(select(*_RECOVERY).where(recoveries.c.user_id == user_id)).one_or_none()
    return Recovery(*row) if row is not None else None


def insert_recovery(tx: Tx, recovery: Recovery) -> None:
    """Add a recovery, and delete the user's former recovery."""
    delete_recovery(tx, recovery.user_id)
    values = asdict(recovery)
    tx.connection.execute(insert(recoveries).values(**values))


def delete_recovery(tx: Tx, user_id: int) -> bool:
    """Delete a user's recovery. Return False if the user has none."""
    return bool(tx.connection.execute(delete(recoveries).where(recoveries.c.user_id == user_id)).rowcount)


def delete_of_user(tx: Tx, user_id: int) -> None:
    """Delete all sessions, passkeys, recoveries and requests of programs of a user."""
    for table in (sessions, passkeys, recoveries):
        tx.connection.execute(delete(table).where(table.c.user_id == user_id))
    device_store.delete_of_user(tx, user_id)


def delete_expired(tx: Tx, limit: int) -> bool:
    """Delete up to `limit` sessions, and requests of programs, that have expired, and recoveries that have
    ended.

    Return True if there may be more. The sweep calls this.
    """
    return (
        delete_oldest(tx, sessions.c.expires_at, tx.now, limit)
        | delete_oldest(tx, recoveries.c.ends_at, tx.now, limit)
        | device_store.delete_expired(tx, limit)
    )
