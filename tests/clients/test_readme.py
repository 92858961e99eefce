"""The examples of the Python client's README run as they are printed, in their order."""

import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

import sublet_client
from support.http_clients import NO_TLS
from support.running_service import RunningService

README = Path(__file__).resolve().parents[2] / "clients/python/README.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_examples_work(
    service: RunningService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    service.add_domain("example.net", "--records", "on")
    who = service.add_user(credit_count=100, free_quota="3")
    service.operator("coupon", "add", "WELCOME", "--percent", "100")
    monkeypatch.setenv("SUBLET_URL", service.base_url)
    monkeypatch.setenv("SUBLET_TOKEN", who.token)
    # Connections of this machine need no certificates, and to load those of the system takes long.
    for kind in (httpx2.Client, httpx2.AsyncClient):
        defaults: dict[str, object] = {**(kind.__init__.__kwdefaults__ or {}), "verify": NO_TLS}
        monkeypatch.setattr(kind.__init__, "__kwdefaults__", defaults)
    saved: list[str] = []
    with sublet_client.Client.from_environment() as client:
        known: dict[str, Any] = {"client": client, "save": saved.append, "url": service.base_url}
        for example in EXAMPLES:
            exec(compile(example, str(README), "exec"), known)  # noqa: S102 - our own page
            if known["client"] is not client:
                known["client"].close()
            known["client"] = client  # a block of the page may have closed its own
        assert client.subdomains.get("gift.example.net").registration_type == "plus"
    shown = capsys.readouterr().out
    assert len(EXAMPLES) == 13
    for line in (
        "active",
        "www 3600 CNAME example.github.io.",
        "10 credits",
        "registered for 0 credits",
        "2372 13 2 1f987cc6583e92df0890718c42a1d3b1a1f4b4a6b2d8a1dd09a4c1d7f4d3e5a6",
        "two.example.net active",
        "3 of 3 free names are used. It costs 10 credits.",
    ):
        assert f"{line}\n" in shown
    assert len(set(saved)) == 2
