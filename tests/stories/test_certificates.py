"""A stranger gets a name with records, and certificates for it from an ACME server (pebble), by certbot and
by lego, both unmodified.
"""

import json
import os
import re
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.free_ports import free_port
from support.name_servers import NameServerProcess, primary
from support.programs import find_program
from support.repetitions import WHOLE
from support.running_service import RunningService, registry_address, running_service
from support.service_on_primary import primary_settings, settings_file
from support.smtp_server import Mailbox, smtp_server, text_of
from support.waiting import wait_until

ZONE = "example.test"
NAME = f"blog.{ZONE}"
COMMAND_SECONDS = 120


@dataclass(frozen=True)
class AcmeServer:
    """A running pebble, and the certificate of its own API."""

    directory: str
    certificate: Path


@contextmanager
def pebble(folder: Path, dns: tuple[str, int]) -> Iterator[AcmeServer]:
    """Run pebble, which asks the name server at `dns` for the challenges."""
    folder.mkdir()
    certificate, key, ports = folder / "cert.pem", folder / "key.pem", [free_port() for _ in range(4)]
    run(
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",  # noqa: E501
        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "-keyout", str(key), "-out", str(certificate),
    )  # fmt: skip
    settings = {
        "listenAddress": f"127.0.0.1:{ports[0]}",
        "managementListenAddress": f"127.0.0.1:{ports[1]}",
        "certificate": str(certificate),
        "privateKey": str(key),
        "httpPort": ports[2],
        "tlsPort": ports[3],
        "ocspResponderURL": "",
    }
    (folder / "pebble.json").write_text(json.dumps({"pebble": settings}))
    words = [
        find_program("pebble"),
        "-config",
        str(folder / "pebble.json"),
        "-dnsserver",
        f"{dns[0]}:{dns[1]}",
    ]
    environment = {
        **os.environ,
        "PEBBLE_VA_NOSLEEP": "1",
        "PEBBLE_WFE_NONCEREJECT": "0",
        "PEBBLE_AUTHZREUSE": "0",
    }
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(words, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            directory = f"https://127.0.0.1:{ports[0]}/dir"
            wait_until(lambda: answers(directory, certificate))
            yield AcmeServer(directory, certificate)
        finally:
            process.terminate()


def answers(url: str, certificate: Path) -> bool:
    try:
        return httpx.get(url, verify=ssl.create_default_context(cafile=certificate)).status_code == 200
    except httpx.TransportError:
        return False


def run(program: str, *words: str, **environment: str) -> str:
    done = subprocess.run(
        [find_program(program), *words],
        capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False, env={**os.environ, **environment},  # noqa: E501
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def serial(certificate: Path, *names: str) -> str:
    """Return the serial of a certificate, which must be for these names."""
    text = run("openssl", "x509", "-in", str(certificate), "-noout", "-serial", "-ext", "subjectAltName")
    assert {f"DNS:{each}" for each in names} == set(re.findall(r"DNS:[^,\s]+", text)), text
    return text


@pytest.mark.slow
@pytest.mark.parametrize("server", ["built-in", pytest.param("knot", marks=pytest.mark.whole)])
def test_a_stranger_gets_certificates(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mailbox = Mailbox()
    (tmp_path / "update-key").write_text("0123456789abcdef" * 2)
    with smtp_server(mailbox) as port, primary_of(server, tmp_path) as knot:
        settings: dict[str, Any] = {
            "signup": "open", "mail_transport": "smtp", "mail_from": "names@example.net", "smtp_host": "127.0.0.1",  # noqa: E501
            "smtp_port": port, "smtp_security": "none", "update_key_file": str(tmp_path / "update-key"),
            "update_listen": f"127.0.0.1:{free_port()}", "publish_wait_ms": 20_000,
        }  # fmt: skip
        if knot:
            settings["primaries"] = (primary_settings(tmp_path, knot),)
        with running_service(registry_address(tmp_path), **settings) as service:
            chosen = []
            if knot:
                service.environment["SUBLET_CONFIG"] = str(
                    settings_file(tmp_path, list(settings["primaries"]))
                )
                chosen = ["--primary", "main"]
            service.add_domain(ZONE, "--records", "on", *chosen)
            dns = (knot.address, knot.port) if knot else service.dns
            began = time.monotonic()
            token = sign_up(service, mailbox)
            added = service.register(token, NAME, records=[{"name": "@", "type": "A", "values": ["8.8.4.4"]}])
            assert added["provisioning"]["status"] == "published", added
            answer = service.call(
                token, "POST", f"/subdomains/{NAME}/update-keys", {"record_names": ["_acme-challenge"]}
            )
            assert answer.status_code == 201, answer.text
            key, secret = answer.json()["update_key"]["key_name"], answer.json()["secret"]
            with pebble(tmp_path / "pebble", dns) as acme:
                first = by_certbot(service, acme, tmp_path / "certbot", key, secret)
                seconds = time.monotonic() - began
                if WHOLE:
                    by_lego(service, acme, tmp_path / "lego", key, secret)
                    assert first != renew_by_certbot(acme, tmp_path / "certbot")
            left = service.call(token, "GET", f"/subdomains/{NAME}/records").json()["records"]
            assert [each["name"] for each in left] == ["@"], "the clients remove their challenges"
            assert service.doctor() == []
    with capsys.disabled():
        print(f" [{server}: 4 requests, then certbot: {seconds:.1f} s]", end="")  # noqa: T201 - a figure to know


def primary_of(server: str, folder: Path) -> AbstractContextManager[NameServerProcess | None]:
    return primary("knot", folder / "knot", ZONE, records=True) if server == "knot" else nullcontext()


def sign_up(service: RunningService, mailbox: Mailbox) -> str:
    """Open an account in two requests, and return its token."""
    auth = service.origin + "/auth"
    asked = service.client.post(f"{auth}/signup", json={"email": "eve@example.org", "name": "Eve"})
    assert asked.status_code == 202, asked.text
    wait_until(lambda: bool(mailbox.messages()))
    code = re.search(r"your code is (\d{6})", text_of(mailbox.messages()[0]))
    assert code is not None
    confirmed = service.client.post(
        f"{auth}/signup/confirm", json={"email": "eve@example.org", "code": code[1]}
    )
    assert confirmed.status_code == 201, confirmed.text
    return str(confirmed.json()["secret"])


def certbot(acme: AcmeServer, folder: Path, *words: str) -> None:
    folders = [word for each in ("config", "work", "logs") for word in (f"--{each}-dir", str(folder / each))]
    run(
        "certbot",
        *words,
        "-n",
        "--server",
        acme.directory,
        *folders,
        REQUESTS_CA_BUNDLE=str(acme.certificate),
    )


def by_certbot(service: RunningService, acme: AcmeServer, folder: Path, key: str, secret: str) -> str:
    folder.mkdir()
    host, port = service.settings.update_listen.split(":")
    credentials = folder / "rfc2136.ini"
    credentials.write_text(
        f"dns_rfc2136_server = {host}\ndns_rfc2136_port = {port}\ndns_rfc2136_name = {key}.\n"
        f"dns_rfc2136_secret = {secret}\ndns_rfc2136_algorithm = HMAC-SHA256\n"
    )
    credentials.chmod(0o600)
    certbot(
        acme, folder, "certonly", "--agree-tos", "--register-unsafely-without-email", "--dns-rfc2136",
        "--dns-rfc2136-credentials", str(credentials), "--dns-rfc2136-propagation-seconds", "0",
        "-d", NAME, "-d", f"*.{NAME}",
    )  # fmt: skip
    return serial(folder / "config" / "live" / NAME / "cert.pem", NAME, f"*.{NAME}")


def renew_by_certbot(acme: AcmeServer, folder: Path) -> str:
    certbot(acme, folder, "renew", "--force-renewal", "--no-random-sleep-on-renew")
    return serial(folder / "config" / "live" / NAME / "cert.pem", NAME, f"*.{NAME}")


def by_lego(service: RunningService, acme: AcmeServer, folder: Path, key: str, secret: str) -> None:
    environment = {
        "LEGO_CA_CERTIFICATES": str(acme.certificate),
        "RFC2136_NAMESERVER": service.settings.update_listen,
        "RFC2136_TSIG_ALGORITHM": "hmac-sha256.",
        "RFC2136_TSIG_KEY": key,
        "RFC2136_TSIG_SECRET": secret,
    }
    words = [
        "--server", acme.directory, "--email", "eve@example.org", "--accept-tos", "--path", str(folder),
        "--dns", "rfc2136", "--dns.disable-cp", "--dns.resolvers", service.settings.update_listen, "-d", f"*.{NAME}",  # noqa: E501
    ]  # fmt: skip
    run("lego", *words, "run", **environment)
    certificate = folder / "certificates" / f"_.{NAME}.crt"
    before = serial(certificate, f"*.{NAME}")
    run("lego", *words, "renew", "--days", "99999", "--no-random-sleep", **environment)
    assert serial(certificate, f"*.{NAME}") != before
