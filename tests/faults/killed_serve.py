"""`sublet serve` that kills itself with SIGKILL at the point that KILL_AT names; with BROKEN, a broken twin of it.

Run as a program by `serving.py`; only the tests know it.
"""

import os
import signal
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import ModuleType
from typing import Any

from sqlalchemy import event

from sublet.cli.main import main
from sublet.db import Tx
from sublet.http import subdomains as endpoints
from sublet.platform_domains import zone_store
from sublet.subdomains import publish_store
from sublet.subdomains.publishing import Batch, Result, record_publication
from sublet.subdomains.register import register
from sublet.subdomains.sweep import sweep
from sublet.worker import built_in_zone, clockwork, mailer, publisher, smtp


def _killed(fn: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return a function that runs `fn`, if one is given, and dies before it returns."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if fn is not None:
            fn(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    return run


def _replace(module: ModuleType, name: str, fn: Callable[..., Any]) -> None:
    assert hasattr(module, name), name
    setattr(module, name, fn)


def _arm(point: str) -> None:
    if point == "before_commit":  # registered, not committed
        _replace(endpoints, "register", _killed(register))
    elif point == "committed":  # registered and committed, nothing begun
        _replace(publisher, "begin_publication", _killed())
    elif point == "written_ahead":  # A is committed, the zone is as it was
        _replace(built_in_zone, "change_zone", _killed())
    elif point == "changing_zone":  # the zone is changed, not committed
        _replace(zone_store, "apply_changes", _killed(zone_store.apply_changes))
    elif point == "published":  # the zone is changed, nothing is recorded
        _replace(publisher, "record_publication", _killed())
    elif point == "recorded":  # recorded, not committed
        _replace(publisher, "record_publication", _killed(record_publication))
    elif point.startswith("sweep:"):  # after so many statements of the sweep
        _count_down(int(point.removeprefix("sweep:")))
    elif point == "mail_claimed":  # a mail is claimed, nothing sent
        _replace(smtp, "_connect", _killed())
    elif point == "mail_taken":  # the mail server took it, nothing is recorded
        _replace(mailer, "record_delivery", _killed())
    elif point:
        raise ValueError(point)


def _count_down(statements: int) -> None:
    left = statements

    def watched(tx: Tx, *args: Any) -> Any:
        def count(*_: Any) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        event.listen(tx.connection, "after_cursor_execute", count)
        try:
            return sweep(tx, *args)
        finally:
            event.remove(tx.connection, "after_cursor_execute", count)

    _replace(clockwork, "sweep", watched)


def _without_write_ahead() -> None:
    """Remember what is in the zone only once it was seen there, as one would do it naively."""
    insert = publish_store.insert_published_owners
    _replace(publish_store, "insert_published_owners", lambda *_: None)

    def record(tx: Tx, results: Mapping[int, Result], batch: Batch) -> list[timedelta]:
        took = record_publication(tx, results, batch)
        for subdomain_id, result in results.items():
            there = publish_store.list_published_owners(tx, subdomain_id)
            wanted = {record.owner for record in result.item.desired} - there
            insert(tx, [(subdomain_id, owner) for owner in wanted])
        return took

    _replace(publisher, "record_publication", record)


if os.environ.get("BROKEN") == "no_write_ahead":
    _without_write_ahead()
_arm(os.environ.get("KILL_AT", ""))
main()
