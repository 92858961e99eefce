"""The whole service for a test, on loopback ports, with a real database.

`RunningService` gives access to the API (`call`), the DNS (`dig`), the operator's commands (`operator`), the
database (`read`), and the clock.
"""

import asyncio
import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import httpx
import structlog
from typer.testing import CliRunner

from sublet.accounts.tokens.issue import issue_token
from sublet.accounts.users import add_user
from sublet.audit import Actor
from sublet.cli.main import app as command_line
from sublet.cli.session import operator_name
from sublet.config import Settings
from sublet.credits.entries import grant_credits
from sublet.db import Tx, open_database, utc_now
from sublet.dns.types import DsRecord
from sublet.doctor.model import Violation
from sublet.platform_domains.offers import offer_mode
from sublet.platform_domains.platform_domain import add_platform_domain
from sublet.restrictions import SCOPES
from sublet.service.roles import Addresses, run_service
from sublet.subdomains.store import list_unreleased_names
from sublet.subdomains.sweep import store as sweep_store
from support import databases, http_clients
from support.child_keys import parse_dsset
from support.declared_members import refuse_undeclared
from support.reading import find_faults, reading, writing_sqlite

R = TypeVar("R")
DS = "2371 13 2 1f987cc6583e92df0890718c42a1d3b1a1f4b4a6b2d8a1dd09a4c1d7f4d3e5a6"
PUBLISH_WAIT_MS = 10_000
"""How long requests wait for their publication by default: longer than a busy machine needs."""


class MovableClock:
    """The clock of a service. It runs like the real clock, ahead of it by what a test has added."""

    def __init__(self) -> None:
        self.ahead = timedelta()
        self._passed = timedelta()

    def __call__(self) -> datetime:
        """Return the instant of the service's clock."""
        return datetime.now(UTC) + self.ahead

    def advance(self, **by: float) -> None:
        """Advance the clock: `days=30`, `hours=1` … The sweep takes an advance of more than an hour for a
        wrong clock.
        """
        self.ahead += timedelta(**by)

    def pass_time(self, **by: float) -> None:
        """Advance both clocks of the service. Its worker then does what is due."""
        self._passed += timedelta(**by)
        self.ahead += timedelta(**by)

    def monotonic(self) -> float:
        """Return the seconds of the service's monotonic clock."""
        return time.monotonic() + self._passed.total_seconds()


def _operator() -> Actor:
    """Return the actor of the operator's commands."""
    return Actor(kind="operator", name=operator_name())


LOG_TO_STDOUT = structlog.PrintLoggerFactory(sys.__stdout__)
"""The log of services that run in threads of this process. A test that captures output replaces `sys.stdout`
and `sys.stderr`, and closes them at its end, so the log doesn't go there.
"""


@dataclass(frozen=True, slots=True)
class Registrant:
    """A user with a token."""

    id: int
    email: str
    token: str
    organization: dict[str, Any]


@dataclass(slots=True)
class RunningService:
    """A running service. `base_url` ends in /api/v1, `dns` is the name server's host and port."""

    settings: Settings
    clock: MovableClock
    base_url: str = ""
    dns: tuple[str, int] = ("", 0)
    client: httpx.Client = field(default_factory=http_clients.Client)
    loop: asyncio.AbstractEventLoop | None = None
    environment: dict[str, str] = field(default_factory=dict)
    """The environment of the operator's commands, without the database's address."""

    @property
    def origin(self) -> str:
        """The URL without the path of the API."""
        return self.base_url.removesuffix("/api/v1")

    def operator(self, *words: str, expect: int | None = 0) -> Any:
        """Run an operator's command with --json, and return its value.

        `expect` is the required exit code, None for any.
        """
        logs = structlog.get_config()
        result = CliRunner().invoke(
            command_line,
            [*words, "--json"],
            env={
                "SUBLET_DATABASE_URL": self.settings.database_url,
                "SUBLET_DATABASE_MAY_LOSE_WRITES": str(self.settings.database_may_lose_writes).lower(),
                **self.environment,
            },
        )
        structlog.configure(**logs)  # The command has turned off the service's logs too.
        assert expect in (None, result.exit_code), (words, result.exit_code, result.output, result.exception)
        return json.loads(result.stdout) if result.stdout.strip() else None

    def add_user(
        self, email: str = "ada@example.org", *, credit_count: int = 0, free_quota: str | None = None
    ) -> Registrant:
        """Add a user with a token of all scopes, by default without credits.

        The verbs run in this process: commands for the thousands of users of the tests would take minutes.
        """

        def verbs(tx: Tx) -> Registrant:
            actor, quota = _operator(), None if free_quota is None else int(free_quota)
            member = add_user(tx, actor, email, email.partition("@")[0], free_quota=quota)
            if credit_count:
                grant_credits(tx, actor, email, credit_count, "test")
            secret = issue_token(tx, actor, email, "test").secret.reveal()
            organization = {"id": member.organization.id, "slug": member.organization.slug}
            return Registrant(member.user.id, email, secret, organization)

        return self._write_as_operator(verbs)

    def metrics(self) -> dict[str, float]:
        """Return the service's metrics by name and labels."""
        text = self.client.get(self.origin + "/metrics").text
        return {
            found[1]: float(found[2]) for found in re.finditer(r"^(sublet_\S+) (\S+)$", text, re.MULTILINE)
        }

    def issue_token(self, email: str, *scopes: str) -> str:
        """Issue a token with these scopes, by default all."""
        issued = self._write_as_operator(
            lambda tx: issue_token(tx, _operator(), email, "test", scopes=scopes)
        )
        return issued.secret.reveal()

    def token_for(self, who: Registrant | str, organization_id: int, **members: Any) -> str:
        """Create a token with all scopes for an organization, and return its secret."""
        body = {"name": "shared", "scopes": list(SCOPES), "organization_id": organization_id, **members}
        answer = self.call(who, "POST", "/tokens", body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["secret"])

    def add_domain(self, domain: str = "example.test", *options: str) -> int:
        """Add a platform domain with the modes free and plus (10 credits), and return its id.

        `options` are those of the command.
        """
        if options:
            added = self.operator("domain", "add", domain, "--public-name", domain.title(), *options)["id"]
        else:
            named = {"public_name": domain.title()}
            added = self._write_as_operator(
                lambda tx: (
                    add_platform_domain(
                        tx, _operator(), domain, named, names_held=list_unreleased_names
                    ).platform_domain.id
                )
            )
        terms = {"price_credits": 10, "renewal_price_credits": 10, "period_days": 365}
        self._write_as_operator(lambda tx: offer_mode(tx, _operator(), domain, "plus", **terms))
        return int(added)

    def call(
        self, who: Registrant | str | None, method: str, path: str, body: Any = None, **headers: str
    ) -> httpx.Response:
        """Send a request with a JSON `body` to the API.

        Names of headers have underscores. Fail if a refusal has advice for the operator.
        """
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if who is not None:
            sent["authorization"] = f"Bearer {who if isinstance(who, str) else who.token}"
        answer = self.client.request(
            method, self.base_url + path, headers=sent, **({} if body is None else {"json": body})
        )
        assert answer.status_code < 400 or "`sublet " not in answer.text, answer.text
        return answer

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        """Send a JSON `body` without a token to a path outside of the API, such as /auth/sessions.

        Names of headers have underscores.
        """
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post(self.origin + path, json=body, headers=sent)

    def register(self, who: Registrant | str, fqdn: str, **members: Any) -> dict[str, Any]:
        """Register a name, which must succeed, and return the answer."""
        answer = self.call(who, "POST", "/subdomains", {"fqdn": fqdn, **members})
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def list_all(self, who: Registrant | str, path: str, member: str) -> list[dict[str, Any]]:
        """Return every item of a list of the API, from all its pages."""
        found: list[dict[str, Any]] = []
        cursor = ""
        while True:
            mark = "&" if "?" in path else "?"
            answer = self.call(who, "GET", f"{path}{mark}limit=500{cursor}")
            assert answer.status_code == 200, answer.text
            found += answer.json()[member]
            page = answer.json()["page"]
            if not page["has_more"]:
                return found
            cursor = f"&cursor={page['next_cursor']}"

    def dig(self, name: str, rdtype: str = "NS", *options: str) -> str:
        """Query the name server with dig, and return its output."""
        words = [
            "dig",
            f"@{self.dns[0]}",
            "-p",
            str(self.dns[1]),
            "+norecurse",
            "+tries=1",
            "+time=60",
            *options,
            name,
            rdtype,
        ]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    def ds(self, name: str) -> set[DsRecord]:
        """Return the DS records that the name server has for a name."""
        return parse_dsset(self.dig(name, "DS", "+noall", "+answer"))

    def delegation(self, name: str) -> set[str]:
        """Return the nameservers in the name server's referral for a name, without final dots."""
        lines = self.dig(name, "NS", "+noall", "+authority").splitlines()
        fields = (line.split() for line in lines)
        return {
            each[4].rstrip(".")
            for each in fields
            if len(each) > 4 and each[0] == f"{name}." and each[3] == "NS"
        }

    def read(self, fn: Callable[[Tx], R]) -> R:
        """Run a function in a reading transaction, at the service's time."""
        with reading(self.settings.database_url) as connection:
            return fn(Tx(connection, self.clock()))

    def write(self, fn: Callable[[Tx], R]) -> R:
        """Run a function in a writing transaction of the service's own kind, at its time, to make changes
        that no verb makes.
        """
        return self._write(fn, self.settings.database_url, self.clock)

    def _write_as_operator(self, fn: Callable[[Tx], R]) -> R:
        """Run verbs with the database and the clock of the operator's commands, on SQLite with statements
        that are compiled once.
        """
        url = self.environment.get("SUBLET_DATABASE_URL", self.settings.database_url)
        if not url.startswith("sqlite:"):
            return self._write(fn, url, utc_now)
        with writing_sqlite(url) as connection:
            return fn(Tx(connection, utc_now()))

    def _write(self, fn: Callable[[Tx], R], url: str, clock: Callable[[], datetime]) -> R:
        async def run() -> R:
            database = open_database(url, clock, may_lose_writes=True)
            try:
                return await database.write(fn)
            finally:
                await database.close()

        return asyncio.run(run())

    def pass_days(self, days: float) -> None:
        """Let any number of days pass, as if the operator had confirmed the time.

        The worker then does what is due.
        """
        self.operator("sweep", "stop")
        self.clock.pass_time(days=days)
        self.operator("sweep", "resume")

    def believe_clock(self) -> None:
        """Store that the sweep has just run, without doing any due step."""
        self.write(lambda tx: sweep_store.update_sweep_state(tx, seen_at=tx.now))

    def doctor(self) -> list[Violation]:
        """Return every broken invariant that `sublet doctor` finds, at the service's time.

        Fail if an audit event has an undeclared member.
        """
        self.read(refuse_undeclared)
        quota = self.settings.free_quota
        return self.read(lambda tx: find_faults(tx, quota))


@cache
def _initialised(*, on_sqlite: bool) -> str:
    """Create a database by `sublet init`, to copy it for each test, which is much
    faster than all migrations.
    """
    url = (
        f"sqlite:///{databases.template('initialised')}/registry.db"
        if on_sqlite
        else databases.kept_database()
    )
    RunningService(Settings(database_url=url), MovableClock()).operator("init")
    return url


def initialised_postgresql() -> str:
    """Return the address of an initialised database of this process's PostgreSQL, for `fresh_database(…,
    like=…)`.
    """
    return _initialised(on_sqlite=False)


def registry_address(folder: Path) -> str:
    """Return the address of an initialised registry of a test's folder, on the chosen database."""
    like = initialised_postgresql() if databases.on_postgresql() else None
    return databases.registry_address(folder, like=like)


def initialise(service: RunningService) -> None:
    """Initialise the database of a service, if it is new. A new SQLite file is copied."""
    path = Path(service.settings.database_url.removeprefix("sqlite:///"))
    if service.settings.database_url.startswith("sqlite:///") and not path.exists():
        shutil.copy(_initialised(on_sqlite=True).removeprefix("sqlite:///"), path)
    else:
        service.operator("init")


@contextmanager
def running_service(database_url: str, **settings: Any) -> Iterator[RunningService]:
    """Initialise a database, run a service with it on free loopback ports, and stop the service gracefully at
    the end.
    """
    settings.setdefault("publish_wait_ms", PUBLISH_WAIT_MS)
    chosen = Settings(
        database_url=database_url,
        http_listen="127.0.0.1:0",
        dns_listen="127.0.0.1:0",
        # The tests' own PostgreSQL doesn't wait for the disk.
        **{"rate_limits": False, "log_level": "error", "database_may_lose_writes": True, **settings},
    )
    structlog.configure(logger_factory=LOG_TO_STDOUT)
    service = RunningService(chosen, MovableClock())
    initialise(service)
    ready = threading.Event()
    stops: list[Callable[[], object]] = []
    failures: list[BaseException] = []

    def run() -> None:
        async def serve() -> None:
            stop = asyncio.Event()
            loop = service.loop = asyncio.get_running_loop()
            stops.append(lambda: loop.call_soon_threadsafe(stop.set))

            def on_ready(addresses: Addresses) -> None:
                service.base_url, service.dns = addresses.base_url, addresses.dns
                ready.set()

            await run_service(
                chosen, stop, clock=service.clock, monotonic=service.clock.monotonic, on_ready=on_ready
            )

        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001 - raised in the test below
            failures.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="service", daemon=True)
    thread.start()
    assert ready.wait(60), "the service did not start"
    if failures:
        raise failures[0]
    try:
        yield service
    finally:
        service.client.close()
        stops[0]()
        thread.join(60)
        assert not thread.is_alive(), "the service did not stop"
        if failures:
            raise failures[0]
