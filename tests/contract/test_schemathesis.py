"""Schemathesis against the running service and its own document: what the document promises, the service
does.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sublet.surfaces import API_OPERATIONS, AUTH_OPERATIONS
from support import http_clients
from support.repetitions import share
from support.running_service import DS, RunningService, registry_address, running_service

pytestmark = pytest.mark.slow

SEED = 20261121
EXAMPLES_AN_OPERATION = share(1, whole=50)
PHASES = share("examples,fuzzing", whole="examples,coverage,fuzzing,stateful")
"""The coverage of each value of the schemas takes most of the time."""
REFUSALS_OF_GOOD_DATA = frozenset({402, 403, 404, 409, 412, 422})
"""What a request that follows the schema may still be told: it needs a confirmation, isn't allowed, or
clashes with what is stored.
"""

REFUSALS_OF_BAD_DATA = [400, 401, 403, 404, 409, 413, 415, 422, 429]
"""What a request that breaks the schema may be told. A list that is too long may make the body too long."""


def write_config(document: dict[str, Any], path: Path) -> None:
    """Say for each operation which of the statuses that its own document declares may answer good data."""
    lines = [f'hooks = "{Path(__file__).with_name("schemathesis_hooks.py")}"', ""]
    for url, methods in document["paths"].items():
        for method, operation in methods.items():
            declared = {int(status) for status in operation["responses"]}
            # No schema can tell a cursor that this list gave from another text.
            cursor = {400} if "invalid_cursor" in operation["x-refusals"] else set()
            # Nor that a credential, which browsers make, has no number beyond 64 bits anywhere.
            cursor |= {400} if url == "/auth/passkeys/confirm" else set()
            # Nor which codes of programs there are.
            cursor |= {400} if url == "/auth/device/token" else set()
            accepted = sorted(declared & ({200, 201, 202, 304} | REFUSALS_OF_GOOD_DATA | cursor))
            lines += [
                "[[operations]]",
                f'include-name = "{method.upper()} {url}"',
                f"checks.positive_data_acceptance.expected-statuses = {accepted}",
                f"checks.negative_data_rejection.expected-statuses = {REFUSALS_OF_BAD_DATA}",
                "",
            ]
    path.write_text("\n".join(lines))


def seed_names(service: RunningService) -> str:
    """Store what the document's examples speak of, in as many states as there are, and return a token that
    may do everything.
    """
    service.add_domain("example.net")
    # Not the address of the examples, with which DELETE /me would delete the user.
    ada = service.add_user("grace@example.org", credit_count=100_000)
    hosts = ["ns1.provider.example", "ns2.provider.example"]
    service.register(ada, "blog.example.net", nameservers=hosts, ds_records=[DS])
    service.register(ada, "empty.example.net")
    service.register(ada, "gone.example.net", nameservers=hosts)
    assert service.call(ada, "DELETE", "/subdomains/gone.example.net").status_code == 200
    paid = {"registration_mode": "plus", "confirm": True}
    service.register(ada, "shop.example.net", nameservers=hosts, **paid)
    for count in range(3):
        body = {"subject": f"Question {count}", "message": "What is glue?"}
        assert service.call(ada, "POST", "/support/tickets", body).status_code == 201
    return ada.token


def run_schemathesis(url: str, token: str, config: Path) -> "subprocess.CompletedProcess[str]":
    """Run all of its checks, with a fixed seed."""
    return subprocess.run(
        [
            *(str(Path(sys.executable).parent / "schemathesis"), "--config-file", str(config), "run", url),
            *("--header", f"Authorization: Bearer {token}"),
            *("--checks", "all", "--phases", PHASES, "--max-examples", str(EXAMPLES_AN_OPERATION)),
            *("--seed", str(SEED), "--workers", "1", "--generation-database", "none"),
            *("--continue-on-failure", "--no-color"),
        ],
        cwd=config.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def test_the_document_and_the_service_agree(tmp_path: Path) -> None:
    with running_service(registry_address(tmp_path), publish_wait_ms=20) as service:
        token = seed_names(service)
        url = service.origin + "/openapi.json"
        config = tmp_path / "schemathesis.toml"
        write_config(http_clients.get(url).json(), config)
        done = run_schemathesis(url, token, config)
        assert service.doctor() == []
    assert done.returncode == 0, done.stdout + done.stderr
    operations = re.search(r"Operations: +(\d+) selected / (\d+) total", done.stdout)
    cases = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
    assert operations is not None, done.stdout
    assert cases is not None, done.stdout
    assert operations[1] == operations[2] == str(len(API_OPERATIONS) + len(AUTH_OPERATIONS))
    assert int(cases[2]) == int(cases[1]) > share(100, whole=1000)
