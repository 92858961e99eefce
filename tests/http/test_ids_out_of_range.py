"""Ids that no row can have, in every path, query and body of the API and the console: refused, and never a
fault.
"""

import re
from collections.abc import Iterator

import msgspec
import pytest

from sublet.http.head import ORGANIZATION_HEADER
from sublet.surfaces import API_OPERATIONS
from sublet.web.routes import PAGES
from support.console_client import console
from support.running_service import RunningService, registry_address, running_service

ADA = "ada@example.org"
IDS = ("0", "007", "-1", str(10**18), str(2**63 - 1), str(2**63), str(2**64), str(10**30), "9" * 5_000)
PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
PAGE_PATHS = [
    path
    for page in PAGES
    for path in (
        page.path,
        *([] if page.is_open or page.is_personal else [f"/o/{{organization}}{page.path}"]),
    )
    if "{" in path
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with running_service(registry_address(tmp_path_factory.mktemp("ids"))) as running:
        running.add_domain()
        running.add_user(ADA)
        yield running


def test_the_console_refuses_them_in_every_path(service: RunningService) -> None:
    browser = console(service, ADA)
    form_token = browser.get("/account").form("/account").fields["form_token"]
    for path in PAGE_PATHS:
        for each in (str(2**63), "9" * 5_000):
            address = PARAMETER.sub(each, path)
            statuses = {browser.get(address, accept="text/html").status}
            statuses.add(browser.post(address, {"form_token": form_token}).status)
            assert all(status < 500 for status in statuses), (address[:100], statuses)


def test_the_api_refuses_them_in_every_query_and_body(service: RunningService) -> None:
    token = service.issue_token(ADA)
    tried = 0
    for operation in API_OPERATIONS:
        path = PARAMETER.sub("1", operation.path)
        for name in _integers(operation.query):
            for each in IDS:
                tried += 1
                answer = service.call(token, operation.method, f"{path}?{name}={each}")
                assert answer.status_code < 500, (operation.name, name, each[:30], answer.text)
        for name in _integers(operation.body):
            for number in (0, -1, 10**18, 2**63 - 1, 2**63, 10**30):
                tried += 1
                answer = service.call(token, operation.method, path, {name: number})
                assert answer.status_code < 500, (operation.name, name, number, answer.text)
    assert tried > 50


def test_the_header_of_an_organization_refuses_them(service: RunningService) -> None:
    cookie = "; ".join(f"{name}={value}" for name, value in console(service, ADA).cookies.items())
    for each in IDS:
        headers = {ORGANIZATION_HEADER: each, "cookie": cookie}
        answer = service.client.get(f"{service.base_url}/subdomains", headers=headers)
        assert answer.status_code in (400, 404), (each[:30], answer.text)


def _integers(struct: type[msgspec.Struct] | None) -> list[str]:
    """Return the names of a Struct's members that take an integer."""
    if struct is None:
        return []
    schema = msgspec.json.schema(struct)
    (members,) = (
        each["properties"] for each in schema["$defs"].values() if each.get("title") == struct.__name__
    )
    return [name for name, each in members.items() if '"integer"' in msgspec.json.encode(each).decode()]
