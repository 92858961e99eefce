"""Retire a package of credits (the operator's `sublet package retire`)."""

from sublet import audit
from sublet.audit import Actor
from sublet.credits import package_store
from sublet.credits.model import Package
from sublet.db import Tx
from sublet.errors import Conflict, NotFound


def retire_package(tx: Tx, actor: Actor, package_id: int) -> Package:
    """Offer a package no longer; a payment that was made for it can still be recorded.

    Raises, in this order:
        NotFound: no such package.
        Conflict: retired already.
    """
    package = package_store.find_package(tx, package_id)
    if package is None:
        raise NotFound(f"There is no package {package_id}. See `sublet package list`.")
    if package.retired_at is not None:
        raise Conflict(f"The package {package.name} is retired already. No action needed.")
    package_store.retire_package(tx, package_id)
    audit.record(tx, actor, "package.retire", "package", package_id, after={"retired_at": tx.now.isoformat()})
    retired = package_store.find_package(tx, package_id)
    assert retired is not None  # noqa: S101 - packages are never deleted
    return retired
