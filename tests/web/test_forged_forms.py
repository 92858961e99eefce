"""A form that another site sends, and one without the token of its session, change nothing: every form of a signed-in user."""

import re

from sublet.web.account_routes import ACCOUNT_PAGES
from support.console_client import console
from support.running_service import RunningService

FORMS = [each.path for each in ACCOUNT_PAGES if each.post is not None]


def test_every_form_is_refused_without_its_token_and_from_other_sites(service: RunningService) -> None:
    browser = console(service, service.add_user().email)
    given = browser.get("/account").form("/account").fields
    foreign = {"origin": "https://evil.example", "sec_fetch_site": "cross-site"}
    without = {name: value for name, value in given.items() if name != "form_token"}
    for path in FORMS:
        filled = re.sub(r"\{[^}]*\}", "1", path)
        answers = [
            browser.post(filled, given, **foreign),
            browser.post(filled, given, origin="null", sec_fetch_site=""),
            browser.post(filled, without),
            browser.post(filled, without | {"form_token": "0" * 64}),
        ]
        assert [each.status for each in answers] == [403, 403, 403, 403], path
