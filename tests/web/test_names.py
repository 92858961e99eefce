"""The list of names."""

import pytest

from support.console_client import console
from support.running_service import RunningService


def test_the_list_is_filtered_and_paged(service: RunningService) -> None:
    service.add_domain()
    ada = service.add_user(free_quota="60")
    for number in range(55):
        service.register(ada, f"n{number:02d}.example.test", nameservers=["ns1.elsewhere.example"])
    browser = console(service, ada.email)
    page = browser.get("/names")
    assert (page.status, "n54.example.test" in page.text, "n04.example.test" in page.text) == (
        200,
        True,
        False,
    )
    older = page.response.text.partition('<a class="button quiet" href="')[2].partition('"')[0]
    assert "n04.example.test" in browser.get(f"/names{older.replace('&amp;', '&')}").text
    found = browser.get("/names?q=n07&status=active")
    assert ("n07.example.test" in found.text, "n08.example.test" in found.text) == (True, False)
    assert "No name matches" in browser.get("/names?q=nothing").text


@pytest.mark.parametrize("query", ["status=wrong", "cursor=wrong", "q=" + "a" * 300])
def test_refusals_of_the_api_are_shown(service: RunningService, query: str) -> None:
    service.add_user("ada@example.org")
    page = console(service, "ada@example.org").get(f"/names?{query}")
    assert (page.status in (400, 422), "This search can't be done" in page.text) == (True, True)
