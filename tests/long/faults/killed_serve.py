"""`sublet serve` that kills itself with SIGKILL at the point named by KILL_AT; with BROKEN, a broken twin.

KILL_ARMED is the path of a file with a number n: the process kills itself at the n-th pass of the point,
while the file exists. `support/serve_process.py` runs this as a program.
"""

import os
import signal
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from dns.update import UpdateMessage
from sqlalchemy import event

from sublet.cli.main import main
from sublet.db import Tx, sqlite
from sublet.db.connect import ConnectionSettings
from sublet.dns.types import Primary
from sublet.mail import mailer, smtp
from sublet.primaries import primary_zone, publisher
from sublet.primaries.primary import PrimaryFault, connection, keyring, send_update
from sublet.primaries.primary_zone import PrimaryZone, ReadBack
from sublet.primaries.publisher_transactions import Batch, Result, record_publication
from sublet.subdomains import api, published_owner_store

_passed = count(1)


def _die() -> None:
    """Die, if it is armed and its time has come."""
    armed = Path(os.environ.get("KILL_ARMED", os.devnull))
    if armed.exists() and next(_passed) >= int(armed.read_text() or 1):
        os.kill(os.getpid(), signal.SIGKILL)


def _dying_before(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that dies before it does what `fn` does."""

    def run(*args: Any, **kwargs: Any) -> Any:
        _die()
        return fn(*args, **kwargs)

    return run


def _dying_after(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does what `fn` does, and dies before it returns."""

    def run(*args: Any, **kwargs: Any) -> Any:
        result = fn(*args, **kwargs)
        _die()
        return result

    return run


async def _send_and_die(primary: Primary, message: UpdateMessage, *, timeout_seconds: float) -> None:
    """Send an update, and die without waiting for its answer."""
    message.use_tsig(keyring(primary), algorithm=primary.key.algorithm)
    async with connection(primary, timeout_seconds) as (_, writer):
        writer.write(message.to_wire(prepend_length=True))
        await writer.drain()
        _die()
    raise PrimaryFault("no_answer", "it was sent, and nobody has waited for the answer")


async def _send_update_and_die(*args: Any, **kwargs: Any) -> None:
    """Send an update, and die once it is answered."""
    await send_update(*args, **kwargs)
    _die()


async def _send_probe_and_die(zone: PrimaryZone, batch: Batch) -> ReadBack:
    """Send a batch; if it was without names, die once it was applied."""
    changed = await _send_batch(zone, batch)
    if not batch.items:
        _die()
    return changed


_send_batch = PrimaryZone.change


def _replace(module: ModuleType | type, name: str, wrap: Callable[..., Any]) -> None:
    """Put in the place of a function what `wrap` makes of it."""
    setattr(module, name, wrap(getattr(module, name)))


def _arm(point: str) -> None:
    if point == "before_commit":  # registered, not committed
        _replace(api, "register", _dying_after)
    elif point == "committed":  # registered and committed, nothing begun
        _replace(publisher, "begin_publication", _dying_before)
    elif point == "written_ahead":  # A is committed, the zone is unchanged
        _replace(primary_zone, "send_update", _dying_before)
    elif point == "sent":  # an update is sent to the primary, which may apply it or not
        _replace(primary_zone, "send_update", lambda _: _send_and_die)
    elif point == "applied":  # the primary has said that it applied the update, which is not read back
        _replace(primary_zone, "send_update", lambda _: _send_update_and_die)
    elif point == "published":  # the zone is changed and read back, nothing is recorded
        _replace(publisher, "record_publication", _dying_before)
    elif point == "recorded":  # recorded, not committed
        _replace(publisher, "record_publication", _dying_after)
    elif point == "settling":  # what the fence tells is recorded, not committed
        _replace(primary_zone, "settle_fence", _dying_after)
    elif point == "probed":  # an update without a name was applied, nothing is recorded
        _replace(PrimaryZone, "change", lambda _: _send_probe_and_die)
    elif point == "mail_claimed":  # a mail is claimed, nothing sent
        _replace(smtp, "_connect", _dying_before)
    elif point == "mail_taken":  # the mail server took it, nothing is recorded
        _replace(mailer, "record_delivery", _dying_before)
    elif point:
        raise ValueError(point)


def _without_write_ahead() -> None:
    """Store a record as published only after it was seen in the zone."""
    insert = published_owner_store.insert_published_owners
    _replace(published_owner_store, "insert_published_owners", lambda _: lambda *_: None)

    def record(tx: Tx, results: Mapping[int, Result], batch: Batch) -> list[timedelta]:
        took = record_publication(tx, results, batch)
        for subdomain_id, result in results.items():
            there = published_owner_store.list_published_owners(tx, subdomain_id)
            wanted = {record.owner for record in result.item.desired} - there
            insert(tx, [(subdomain_id, owner) for owner in wanted])
        return took

    _replace(publisher, "record_publication", lambda _: record)


def _without_syncs() -> None:
    """Answer after the commit and before its sync."""

    def without(begin: Callable[..., Any]) -> Callable[..., Any]:
        def run(session: ConnectionSettings, connection: Any) -> None:
            begin(session, connection)
            connection.execute("SET synchronous_commit = off")
            connection.commit()

        return run

    def open_sqlite(open_engine: Callable[..., Any]) -> Callable[..., Any]:
        def run(path: Path, **options: Any) -> Any:
            engine = open_engine(path, **options)
            event.listen(
                engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF")
            )
            return engine

        return run

    _replace(ConnectionSettings, "begin", without)
    _replace(sqlite, "sqlite_engine", open_sqlite)


def _answering_early() -> None:
    """Answer before the commit (on SQLite only)."""
    under_way: list[tuple[sqlite.SqliteDatabase, list[Any]]] = []

    def told(commit_group: Callable[..., Any]) -> Callable[..., Any]:
        def run(database: sqlite.SqliteDatabase, group: list[Any]) -> None:
            under_way[:] = [(database, group)]
            commit_group(database, group)

        return run

    def answer(_connection: Any) -> None:
        for database, group in under_way:
            database._answer(group)
        time.sleep(0.2)

    def open_sqlite(open_engine: Callable[..., Any]) -> Callable[..., Any]:
        def run(path: Path, **options: Any) -> Any:
            engine = open_engine(path, **options)
            event.listen(engine, "commit", answer)  # called before COMMIT is sent
            return engine

        return run

    _replace(sqlite.SqliteDatabase, "_commit_group", told)
    _replace(sqlite, "sqlite_engine", open_sqlite)


TWINS = {
    "": lambda: None,
    "no_write_ahead": _without_write_ahead,
    "no_syncs": _without_syncs,
    "early_answers": _answering_early,
}
TWINS[os.environ.get("BROKEN", "")]()
_arm(os.environ.get("KILL_AT", ""))
main()
