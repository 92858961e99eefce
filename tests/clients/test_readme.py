"""The examples of the Python client's README run as they are printed, in their order."""

import ast
import asyncio
import inspect
import re
from pathlib import Path

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
    service.add_domain("example.net")
    who = service.add_user(credit_count=100)
    monkeypatch.setenv("SUBLET_URL", service.base_url)
    monkeypatch.setenv("SUBLET_TOKEN", who.token)
    # Connections of this machine need no certificates, and to load those of the system takes long.
    for kind in (httpx2.Client, httpx2.AsyncClient):
        defaults: dict[str, object] = {**(kind.__init__.__kwdefaults__ or {}), "verify": NO_TLS}
        monkeypatch.setattr(kind.__init__, "__kwdefaults__", defaults)
    saved: list[str] = []
    with sublet_client.Client.from_environment() as client:
        known = {
            "client": client,
            "save": saved.append,
            "names": ["one.example.net", "two.example.net"],
            "url": service.base_url,
            "token": who.token,
        }
        for example in EXAMPLES:
            code = compile(example, str(README), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            ran = eval(code, known)  # noqa: S307 - our own page
            if inspect.iscoroutine(ran):
                asyncio.run(ran)
            known["client"] = client  # a block of the page may have closed its own
    shown = capsys.readouterr().out
    assert len(EXAMPLES) == 7
    assert "active" in shown
    assert "10 credits" in shown
    assert "one.example.net" in shown
    assert len(saved) == 1
