"""A small registry with two users, for tests of tickets."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, select

from sublet.accounts import store as account_store
from sublet.audit import Actor, audit_events
from sublet.credits import store as _credit_store  # noqa: F401 - other tables refer to its tables
from sublet.db import Tx, sqlite_engine
from sublet.dns.types import Delegation
from sublet.errors import Refusal
from sublet.platform_domains import store as platform_domain_store
from sublet.schema import metadata
from sublet.subdomains import store as subdomain_store
from sublet.tickets.find import find_for_staff_with_messages
from sublet.tickets.model import Ticket, TicketRequest
from sublet.tickets.open_ticket import open_ticket

START = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


STAFF = Actor(kind="operator", name="olga", reason="a reason for the audit alone")


QUESTION = TicketRequest(subject="A question", message="Canary in the body: how?")


PLATFORM_DOMAIN: dict[str, Any] = {
    "domain": "example.net",
    "public_name": "Example",
    "description": "",
    "hidden": False,
    "restricted": False,
    "registration_open": True,
    "idn": True,
    "dnssec_signed": False,
    "nameservers_min": 1,
    "nameservers_max": 13,
    "label_length_min": 1,
    "premium_length_max": 0,
    "renewal_window_days": 60,
    "grace_days": 30,
    "trash_days": 30,
    "cooling_off_days": 7,
    "apex_nameservers": ["ns1.example.net"],
    "soa_mname": "ns1.example.net",
    "soa_rname": "hostmaster.example.net",
    "serial": 1,
    "refresh_seconds": 3600,
    "retry_seconds": 600,
    "expire_seconds": 1209600,
    "negative_ttl_seconds": 300,
    "apex_ttl_seconds": 3600,
    "delegation_ttl_seconds": 3600,
    "primary": "",
    "secondaries": [],
}


@dataclass
class HelpDesk:
    """A registry with two users of one organization. Only the test moves its clock."""

    engine: Engine
    now: datetime = START
    users: dict[str, int] = field(default_factory=dict)
    platform_domain_id: int = 0

    def actor(self, name: str) -> Actor:
        return Actor(kind="user", user_id=self.users[name], token_id=7, request_id="r-1")

    @contextmanager
    def tx(self) -> Iterator[Tx]:
        with self.engine.begin() as connection:
            yield Tx(connection, self.now)

    def pass_time(self, **of: float) -> None:
        self.now += timedelta(**of)

    def open(self, name: str = "ann", command: TicketRequest = QUESTION) -> int:
        with self.tx() as tx:
            return open_ticket(tx, self.actor(name), command).id

    def ticket(self, ticket_id: int) -> Ticket:
        with self.tx() as tx:
            return find_for_staff_with_messages(tx, str(ticket_id))

    def suspend(self, name: str) -> None:
        with self.tx() as tx:
            account_store.update_user(tx, self.users[name], suspended_at=tx.now, suspended_reason="abuse")

    def subdomain(self, name: str, label: str, **values: object) -> int:
        with self.tx() as tx:
            platform_domain = platform_domain_store.find_platform_domain(tx, self.platform_domain_id)
            assert platform_domain is not None
            added = subdomain_store.insert_subdomain(
                tx,
                platform_domain,
                Delegation((), (), ()),
                user_id=self.users[name],
                label=label,
                fqdn=f"{label}.example.net",
                registration_type="free",
                registration_source="api",
                generation=0,
                registered_at=tx.now,
                expires_at=tx.now + timedelta(days=365),
                period_days=365,
            )
            assert added is not None
            if values:
                subdomain_store.update_subdomain(tx, added.id, **values)
            return added.id

    def dump(self) -> dict[str, list[Any]]:
        with self.engine.connect() as connection:
            return {
                table.name: [tuple(row) for row in connection.execute(select(table))]
                for table in metadata.sorted_tables
            }

    def audit(self) -> list[Any]:
        with self.engine.connect() as connection:
            return list(connection.execute(select(audit_events).order_by(audit_events.c.id)))

    @contextmanager
    def refuses(self, refusal: type[Refusal]) -> Iterator[tuple[Tx, list[Refusal]]]:
        """Check that a refused verb has written nothing, by committing its transaction."""
        before = self.dump()
        caught: list[Refusal] = []
        with self.tx() as tx:
            try:
                yield tx, caught
            except Refusal as error:
                caught.append(error)
        assert [type(error) for error in caught] == [refusal]
        assert self.dump() == before


@contextmanager
def help_desk(tmp_path: Path) -> Iterator[HelpDesk]:
    """Return a new registry with an SQLite database in a folder."""
    engine = sqlite_engine(f"sqlite:///{tmp_path / 'sublet.db'}")
    metadata.create_all(engine)
    desk = HelpDesk(engine)
    with desk.tx() as tx:
        organization = account_store.insert_organization(tx, "Example", "example")
        assert organization is not None
        for name in ("ann", "ben"):
            desk.users[name] = account_store.insert_user(
                tx, f"{name}@example.org", name.title(), organization.id, None
            )
        desk.platform_domain_id = platform_domain_store.insert_platform_domain(tx, **PLATFORM_DOMAIN)
    yield desk
    engine.dispose()
