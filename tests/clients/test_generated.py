"""The generated part of the Python client is that of this version of the API, and every operation has a
method.
"""

import inspect
import sys
from pathlib import Path
from typing import Any

import pytest

import sublet_client
from sublet.db import Tx
from sublet.operations import tags
from sublet.operations.call import Answer
from sublet.operations.call import Call as Request
from sublet.operations.operation import API, Operations, not_sensitive
from sublet.operations.shapes import Body, Success
from sublet.subdomains.shapes import FQDN
from sublet_client._core import Call, Reply
from sublet_client._errors import BY_CODE
from sublet_client._methods import METHODS

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))
import generate_client  # noqa: E402 - a command of the repository, not of a package


def test_the_generated_files_match_this_api() -> None:
    """Run `make client` after a change of the API."""
    for name, text in generate_client.files().items():
        assert (generate_client.TARGET / name).read_text(encoding="utf-8") == text, name


def _methods(client: object) -> dict[str, object]:
    """Return the public methods of a client's groups, as `group.method`."""
    groups = {name: group for name, group in vars(client).items() if not name.startswith("_")}
    return {
        f"{name}.{method}": function
        for name, group in groups.items()
        for method, function in inspect.getmembers(group, inspect.ismethod)
        if not method.startswith("_")
    }


SYNC = _methods(sublet_client.Client("https://names.example.net/api/v1"))
ASYNC = _methods(sublet_client.AsyncClient("https://names.example.net/api/v1"))


def test_every_operation_has_a_method_in_both_clients() -> None:
    operations = [each.name for each in generate_client.FOR_PROGRAMS]
    assert sorted(generate_client.PLACES) == sorted(operations)
    methods = {".".join(generate_client.PLACES[each]) for each in operations}
    assert len(methods) == len(operations), "two operations have the same place"
    assert methods <= SYNC.keys()
    assert methods <= ASYNC.keys()


def test_errors_advise_existing_methods() -> None:
    assert set(METHODS.values()) <= SYNC.keys()
    assert METHODS.keys() <= BY_CODE.keys()


def test_both_clients_have_the_same_methods_with_the_same_arguments() -> None:
    assert SYNC.keys() == ASYNC.keys()
    for name, method in SYNC.items():
        parameters = inspect.signature(method).parameters  # type: ignore[arg-type] # a bound method
        others = inspect.signature(ASYNC[name]).parameters  # type: ignore[arg-type]
        assert {key: str(each) for key, each in parameters.items()} == {
            key: str(each) for key, each in others.items()
        }, name


MEMO = {"memo": "For the garden club."}
api = Operations(API, tags.SUBDOMAINS, fqdn=FQDN)


class MemoAnswer(Success, kw_only=True):
    """A text, or null."""

    memo: str | None


class MemoBody(Body):
    """A text, or null."""

    memo: str | None


@api.get("/subdomains/{fqdn}/memo", example=MEMO)
def get_memo(tx: Tx, call: Request[None, None]) -> MemoAnswer:
    """Get the memo."""
    raise NotImplementedError


@api.write(
    "PUT",
    "/subdomains/{fqdn}/memo",
    gate=not_sensitive("an example"),
    example_body=MEMO,
    example=MEMO,
)
async def set_memo(call: Request[MemoBody, None]) -> Answer[MemoAnswer]:
    """Set the memo."""
    raise NotImplementedError


class Transport:
    """A transport that keeps the call, and answers it with null."""

    def run(self, call: Call[Any]) -> Any:
        self.call = call
        return call.read(Reply(200, {}, b'{"ok":true,"memo":null}'))


def test_null_is_the_result_of_an_answer_with_one_member_and_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in api:
        monkeypatch.setitem(generate_client.PLACES, each.name, generate_client.place_of(each))
    written = generate_client.files([*generate_client.FOR_PROGRAMS, *api])
    assert written["models.py"] == (generate_client.TARGET / "models.py").read_text(encoding="utf-8")
    module: dict[str, Any] = {}
    exec(written["_sync.py"], module)  # noqa: S102 - what the generator wrote
    transport = Transport()
    methods = module["SubdomainsMethods"](transport)
    assert inspect.signature(methods.get_memo).return_annotation == str | None
    assert methods.get_memo("a.example.net") is None
    assert methods.set_memo("a.example.net", None) is None
    assert transport.call.body == {"memo": None}
