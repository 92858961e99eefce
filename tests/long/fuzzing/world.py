"""A real `sublet serve` with planted canaries, and with accounts that clients may use freely."""

import base64
import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from long.fuzzing.aim import Aim, operations_of
from long.fuzzing.canaries import Canary
from long.fuzzing.hostile_pieces import HOSTILE_TEXTS
from sublet.audit import audit_events
from sublet.db import Tx
from support import http_clients
from support.databases import registry_address
from support.running_service import DS, Registrant
from support.serve_process import ServeProcess, free_address, serve_process, wait_until
from support.smtp_server import PASSWORD, USERNAME, Mailbox, make_certificate, smtp_server

ACCOUNTS = 4
BUSY_PAUSE_SECONDS = 0.05
LARGE = "large.example.test"
"""The name with the largest delegation: thirteen nameservers inside with two addresses
each, two DS records.
"""


@dataclass(slots=True)
class World:
    """The service and its canaries; `busy` counts the requests of the canary account."""

    serving: ServeProcess
    aim: Aim
    canaries: tuple[Canary, ...]
    owner: Registrant
    mailbox: Mailbox
    busy: int = 0
    findings: list[str] = field(default_factory=list)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def rss_mib(self) -> float:
        """Return the memory that the process of the service has in RAM, in MiB."""
        assert self.serving.process is not None
        pages = int(Path(f"/proc/{self.serving.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    @contextmanager
    def owner_is_busy(self) -> Iterator[None]:
        """Let the canary account read its own data until the block ends, so that the service has its secrets
        in memory.
        """
        self._stopped.clear()
        thread = threading.Thread(target=self._work)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join(60)

    def _work(self) -> None:
        own = next(each.text for each in self.canaries if each.kind == "registered name")
        coupon = next(each.text for each in self.canaries if each.kind == "coupon code")
        with http_clients.Client(
            timeout=30,
            base_url=self.serving.service.base_url,
            headers={"authorization": f"Bearer {self.owner.token}"},
        ) as client:
            while not self._stopped.wait(BUSY_PAUSE_SECONDS):
                answers = [
                    client.get("/me"),
                    client.get(f"/subdomains/{own}"),
                    client.get("/support/tickets/1"),
                    client.post(f"/subdomains/{own}/renew", json={"coupon_code": coupon}),
                ]
                self.busy += len(answers)
                bad = [each for each in answers if each.status_code >= 500 or each.status_code in (401, 429)]
                self.findings += [
                    f"the canary account got {each.status_code}: {each.text[:300]}" for each in bad
                ]

    def audit(self) -> bytes:
        """Return all audit events as text."""

        def ask(tx: Tx) -> bytes:
            return "\n".join(
                repr(tuple(row)) for row in tx.connection.execute(audit_events.select())
            ).encode()

        return self.serving.service.read(ask)

    def metrics(self) -> bytes:
        """Return the page of metrics."""
        service = self.serving.service
        return service.client.get(service.base_url.removesuffix("/api/v1") + "/metrics").content


def _hidden(draws: random.Random, what: str) -> str:
    """Return a text that is nowhere by chance."""
    return f"{what}-{draws.getrandbits(80):020x}"


def _plant_settings(folder: Path, serving: ServeProcess, smtp_port: int, certificate: Path, key: str) -> None:
    """Give the service a primary that is away and its TSIG key, and a mail server with a password."""
    (folder / "tsig.key").write_text(key)
    (folder / "smtp.password").write_text(PASSWORD)
    port = free_address()[1]
    (folder / "sublet.toml").write_text(
        f'[primaries.away]\naddress = "127.0.0.1"\nport = {port}\nkey_name = "fuzz"\nkey_file = '
        f'"{folder}/tsig.key"\n'
    )
    serving.environment |= {
        "SUBLET_CONFIG": str(folder / "sublet.toml"),
        "SUBLET_MAIL_TRANSPORT": "smtp",
        "SUBLET_MAIL_FROM": "registry@example.net",
        "SUBLET_SMTP_HOST": "localhost",
        "SUBLET_SMTP_PORT": str(smtp_port),
        "SUBLET_SMTP_USERNAME": USERNAME,
        "SUBLET_SMTP_PASSWORD_FILE": str(folder / "smtp.password"),
        "SUBLET_PUBLISH_WAIT_MS": "20",
        "SUBLET_LOG_LEVEL": "info",
        "SUBLET_LOG_FORMAT": "json",
        "SSL_CERT_FILE": str(certificate),
    }
    serving.service.environment |= {"SUBLET_CONFIG": str(folder / "sublet.toml")}


@contextmanager
def a_world(folder: Path, seed: int) -> Iterator[World]:
    """Start the service on SQLite, plant the canaries, and stop it in any case."""
    draws = random.Random(seed)  # noqa: S311 - texts to look for, no secrets
    mailbox = Mailbox()
    certificate = make_certificate(folder)
    key = base64.b64encode(draws.randbytes(32)).decode()
    with (
        smtp_server(mailbox, certificate=certificate, auth=True) as smtp_port,
        serve_process(registry_address(folder), folder, free_quota=40) as serving,
    ):
        _plant_settings(folder, serving, smtp_port, certificate, key)
        serving.start()
        service = serving.service
        for domain in ("example.test", "keyed.test", "hidden.test"):
            service.add_domain(domain, "--records", "on")
        service.operator("domain", "edit", "keyed.test", "--primary", "away")
        owner, canaries = _plant_owner(serving, draws)
        service.operator("domain", "edit", "hidden.test", "--hidden")
        canaries += [Canary("TSIG key", key), Canary("SMTP password", PASSWORD)]
        accounts = [_plant_account(serving, draws, number, canaries) for number in range(ACCOUNTS)]
        suspended = service.add_user("suspended@example.org")
        service.operator("user", "suspend", suspended.email, "--reason", "test")
        wait_until(lambda: bool(mailbox.taken))  # the password was used
        url = httpx.URL(service.base_url)
        tokens = (*(token for account in accounts for token in account), suspended.token)
        aim = Aim(
            (url.host, url.port or 0),
            operations_of(service.client.get(str(url.copy_with(path="/openapi.json"))).json()),
            _texts(canaries),
            tokens,
            ("", owner.token[:-1] + ("a" if owner.token[-1] != "a" else "b"), "sublet_" + "a" * 40, "x"),
        )
        yield World(serving, aim, tuple(canaries), owner, mailbox)


def _plant_owner(serving: ServeProcess, draws: random.Random) -> tuple[Registrant, list[Canary]]:
    """Make the account whose everything is a canary."""
    service = serving.service
    email = f"{_hidden(draws, 'owner')}@example.org"
    owner = service.add_user(email, credit_count=1000)
    name = f"{_hidden(draws, 'n')}.example.test"
    hidden_name = f"{_hidden(draws, 'h')}.hidden.test"
    keyed = f"{_hidden(draws, 'k')}.keyed.test"
    inside = f"ns1.{name}"
    delegation = {
        "nameservers": ["ns1.provider.example", inside],
        "glue": [{"host": inside, "ipv4": "9.9.9.9"}],
    }
    service.register(owner, name, registration_mode="plus", confirm=True, **delegation)
    for each in (hidden_name, keyed):
        service.register(owner, each, nameservers=["ns1.provider.example"])
    hosts = [f"ns{number}.{LARGE}" for number in range(13)]
    glue = [
        {"host": host, "ipv4": f"9.9.9.{n + 1}", "ipv6": f"2a00::{n + 1}"} for n, host in enumerate(hosts)
    ]
    service.register(owner, LARGE, nameservers=hosts, glue=glue, ds_records=[DS, f"1{DS[1:]}"])
    texts = [_hidden(draws, what) for what in ("subject", "message", "reply", "answer")]
    coupon = f"C{draws.getrandbits(64):016X}"
    service.operator("coupon", "add", coupon, "--percent", "5")
    body = {"subject": texts[0], "message": texts[1], "fqdn": name}
    assert service.call(owner, "POST", "/support/tickets", body).status_code == 201
    assert service.call(owner, "POST", "/support/tickets/1/reply", {"message": texts[2]}).is_success
    service.operator("ticket", "reply", "1", "--message", texts[3])
    canaries = [
        Canary("token", owner.token, (owner.token,)),
        Canary("e-mail address", email, (owner.token,)),
        Canary("user's name", email.partition("@")[0], (owner.token,)),
        Canary("coupon code", coupon, (owner.token,)),
        *(Canary("registered name", each, (owner.token,)) for each in (name, hidden_name, keyed)),
        *(Canary("ticket text", each, (owner.token,)) for each in texts),
    ]
    return owner, canaries


def _plant_account(
    serving: ServeProcess, draws: random.Random, number: int, canaries: list[Canary]
) -> tuple[str, ...]:
    """Create an account for clients and return its tokens; its data are canaries for the others."""
    service = serving.service
    email = f"{_hidden(draws, f'user{number}')}@example.org"
    account = service.add_user(email, credit_count=100_000)
    service.register(
        account, f"own{number}.example.test", nameservers=["ns1.provider.example", "ns2.provider.example"]
    )
    text = _hidden(draws, f"ticket{number}")
    body = {"subject": text, "message": "What is glue?"}
    assert service.call(account, "POST", "/support/tickets", body).status_code == 201
    tokens = (account.token, service.issue_token(email, "account:read", "subdomains:read", "tickets:read"))
    canaries += [Canary("token", each, tokens, sent_about=True) for each in tokens]
    canaries += [Canary("e-mail address", email, tokens), Canary("ticket text", text, tokens)]
    return tokens


def _texts(canaries: list[Canary]) -> dict[str, list[str]]:
    """Return good values of members, by their name.

    Other people's names are asked for, but none that is a canary.
    """
    labels = [f"n{number}" for number in range(60)]
    names = [f"{label}.example.test" for label in labels]
    known = [
        *names,
        *(f"own{number}.example.test" for number in range(ACCOUNTS)),
        LARGE,
        "a.keyed.test",
        "b.hidden.test",
    ]
    hosts = [
        "ns1.provider.example",
        "ns2.provider.example",
        "NS3.Provider.Example.",
        "ns1.n1.example.test",
        "bücher.example",
    ]
    key = "257 3 15 l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4="
    return {
        "type": ["A"],
        "values": ["8.8.4.4", "8.8.8.8"],
        "path fqdn": [*known, *map(str, range(1, 60)), "nobody.example.test", "N1.EXAMPLE.TEST."],
        "path id": [*map(str, range(1, 60)), *(f"T-{number}" for number in range(1, 20)), "T-000001"],
        "fqdn": known,
        # Who sends and who gets a name see each other's address, so no name is offered to a canary.
        "to": ["nobody@example.org", "NOBODY@example.org"],
        "subdomain": known,
        "label": [*labels, "bücher", "xn--bcher-kva"],
        "domain": ["example.test", "keyed.test", "hidden.test", "EXAMPLE.test."],
        "nameservers": hosts,
        **{f"ns{number}": hosts for number in range(1, 5)},
        "host": ["ns1.n1.example.test", "ns1.n2.example.test"],
        "ipv4": ["9.9.9.9", "8.8.4.4"],
        "ipv6": ["2a00::1", "2620:fe::fe"],
        "ds_records": [DS, key, f"n1.example.test. 3600 IN DS {DS}"],
        "digest": [DS.rpartition(" ")[2]],
        "public_key": [key.rpartition(" ")[2]],
        "coupon_code": ["NOSUCH", "C0000000000000000"],
        "cursor": ["x", "eyJpZCI6MX0"],
        "q": ["n", "own", "%", "-"],
        "subject": ["Hello", "How?"],
        "message": ["What is glue?", "x" * 300, *HOSTILE_TEXTS[2:8]],
        "expires_before": ["2030-01-01T00:00:00Z"],
        "expires_after": ["2020-01-01T00:00:00Z"],
    }
