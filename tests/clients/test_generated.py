"""The generated part of the Python client is that of this version of the API, and every operation has a
method.
"""

import inspect
import sys
from pathlib import Path

import sublet_client
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
