"""From a path to who answers it, by its segments."""

import asyncio
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from sublet.http.paths import Paths


def answered(path: str, kind: str = "http") -> tuple[str, dict[str, str]]:
    """Who answers a path, and with which path parameters?"""
    found: list[tuple[str, dict[str, str]]] = []

    def app(name: str) -> Any:
        async def noted(scope: Scope, _receive: Receive, _send: Send) -> None:
            found.append((name, scope.get("path_params", {})))

        return noted

    paths = Paths(app("nobody"))
    for each in ("/v1/names", "/v1/names/{fqdn}", "/v1/names/{fqdn}/keys/{id}", "/v1/names/mine"):
        paths.add(each, app(each))

    async def nothing(*_: Any) -> Any:
        raise AssertionError

    asyncio.run(paths({"type": kind, "path": path}, nothing, nothing))
    ((name, parameters),) = found
    return name, parameters


@pytest.mark.parametrize(
    ("path", "name", "parameters"),
    [
        ("/v1/names", "/v1/names", {}),
        ("/v1/names/a.example", "/v1/names/{fqdn}", {"fqdn": "a.example"}),
        ("/v1/names/mine", "/v1/names/mine", {}),
        ("/v1/names/a%2f/keys/7", "/v1/names/{fqdn}/keys/{id}", {"fqdn": "a%2f", "id": "7"}),
        ("/v1/names/", "nobody", {}),
        ("/v1/names//keys/7", "nobody", {}),
        ("/v1/names/a/keys", "nobody", {}),
        ("/v1/names/a/keys/7/", "nobody", {}),
        ("/v1/Names", "nobody", {}),
        ("/v1", "nobody", {}),
        ("/", "nobody", {}),
        ("", "nobody", {}),
        ("*", "nobody", {}),
    ],
)
def test_a_path_leads_to_what_has_exactly_its_segments(
    path: str, name: str, parameters: dict[str, str]
) -> None:
    assert answered(path) == (name, parameters)


def test_what_is_no_request_is_for_somebody_else() -> None:
    assert answered("/v1/names", kind="lifespan") == ("nobody", {})
