"""All combinations of the facts of a name, and of the facts of its user, stored as rows.

They are stored without the verbs, because no single request ends the grace of a name or makes its publication
fail.
"""

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta
from itertools import product
from typing import Any

from sqlalchemy import insert, update

from sublet.accounts.store import users
from sublet.db import Tx
from sublet.dns.look_alikes import stored_skeleton
from sublet.dns.types import Delegation
from sublet.subdomains import store
from sublet.subdomains.store import subdomains

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
NS1 = "ns1.provider.example"
ACTION_REQUESTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "update_nameservers": ("PUT", "/nameservers", {"nameservers": [NS1, "ns2.provider.example"]}),
    "retry": ("POST", "/retry", {}),
    "renew": ("POST", "/renew", {}),
    "set_auto_renew": ("PUT", "/auto-renew", {"enabled": True, "max_credits": 5}),
    "delete": ("DELETE", "", {}),
    "restore": ("POST", "/restore", {}),
}
"""The request of each action, with a valid body."""


@dataclass(frozen=True, slots=True)
class State:
    """The facts of a name.

    Its platform domain has the default days: a renewal window of 60, a grace of 30, a trash of 30.

    `trash` is no, left (restorable) or over (no longer restorable). `term` is early (before the renewal
    window), open, expired (in the grace) or lapsed (after the grace, before the sweep). `renewed` means
    within the last day. `publication` is published, pending or failed, of the delegation, or of its removal
    if the name has no nameservers or is in the trash.
    """

    trash: str
    suspended: bool
    term: str
    renewed: bool
    nameservers: bool
    publication: str
    mode: str

    @property
    def exists(self) -> bool:
        """Return True if a name can be in this state.

        A name that was just renewed can't be after its grace, or long in the trash.
        """
        return not (self.renewed and (self.term == "lapsed" or self.trash == "over"))

    def columns(self, now: datetime) -> dict[str, Any]:
        """Return the row's columns at an instant, without due dates, so that the sweep ignores the name."""
        expires_in = {"early": 300 * DAY, "open": 10 * DAY, "expired": -5 * DAY, "lapsed": -50 * DAY}[
            self.term
        ]
        # With so short a term the window would be open right after a renewal, except for `RENEWAL_REST`.
        period_days = 365
        if self.renewed and self.term != "early":
            period_days = 12 if self.term == "open" else 1
            expires_in = max(expires_in, -HOUR / 2)
        in_trash = {"no": None, "left": HOUR / 4, "over": 31 * DAY}[self.trash]
        generation = 3 if self.nameservers or self.publication != "published" else 0
        return {
            "expires_at": now + expires_in,
            "period_days": period_days,
            "last_renewed_at": now - HOUR if self.renewed else None,
            "trashed_at": None if in_trash is None else now - in_trash,
            "suspended_at": now - 40 * DAY if self.suspended else None,
            "generation": generation,
            "published_generation": generation - (self.publication != "published"),
            "provision_error": "refused" if self.publication == "failed" else None,
            "due_at": None,
            "loss_at": None,
        }


@dataclass(frozen=True, slots=True)
class Asker:
    """The facts of a user that a name's actions depend on. `rich` means that the balance covers a renewal."""

    suspended: bool
    quota_left: bool
    rich: bool

    @property
    def name(self) -> str:
        """A unique name of the user."""
        return "".join("ny"[each] for each in astuple(self))


STATES = [
    state
    for facts in product(
        ("no", "left", "over"),
        (False, True),
        ("early", "open", "expired", "lapsed"),
        (False, True),
        (False, True),
        ("published", "pending", "failed"),
        ("free", "plus"),
    )
    if (state := State(*facts)).exists
]
ASKERS = [Asker(*facts) for facts in product((False, True), repeat=3)]


def add_names(tx: Tx, wanted: Iterable[tuple[int, str, State]], platform_domain_id: int, domain: str) -> None:
    """Store names (user id, label, state) as rows, because registering thousands of names would take too
    long.
    """
    rows = [
        {
            "user_id": user_id,
            "platform_domain_id": platform_domain_id,
            "label": label,
            "fqdn": f"{label}.{domain}",
            "skeleton": stored_skeleton(label),
            "registration_type": state.mode,
            "registration_source": "api",
            "nameserver_count": int(state.nameservers),
            "ds_record_count": 0,
            "attempts": 0,
            "registered_at": tx.now - 400 * DAY,
            "created_at": tx.now - 400 * DAY,
            "updated_at": tx.now,
            **store.delegation_columns(Delegation((NS1,) if state.nameservers else ())),
            **state.columns(tx.now),
        }
        for user_id, label, state in wanted
    ]
    if rows:
        tx.connection.execute(insert(subdomains), rows)


def put_into(tx: Tx, subdomain_id: int, state: State) -> None:
    """Put a name into a state, from any state."""
    delegation = store.delegation_columns(Delegation((NS1,) if state.nameservers else ()))
    values = state.columns(tx.now) | delegation
    tx.connection.execute(update(subdomains).where(subdomains.c.id == subdomain_id).values(values))


def put_user_into(tx: Tx, user_id: int, asker: Asker) -> None:
    """Store the facts of a user, except the balance."""
    values = {
        "suspended_at": tx.now if asker.suspended else None,
        "free_quota": None if asker.quota_left else 0,
    }
    tx.connection.execute(update(users).where(users.c.id == user_id).values(values))
