"""The pages agree with the code: settings, errors, endpoints, metrics, links, files."""

import re
from dataclasses import MISSING, Field, fields
from pathlib import Path
from urllib.parse import unquote

import pytest

from sublet.config import REMOVED_SETTINGS, PrimarySettings
from sublet.errors import FIELD_CODES, MALFORMED_FIELD_CODES, Refusal
from sublet.http.errors import status_of
from sublet.surfaces import OPERATIONS
from support.running_service import RunningService

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
_CODE = ("src", "tests", "tools", "clients", "bench")
MODULES = {each.as_posix() for folder in _CODE for each in (ROOT / folder).rglob("*.py")}
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def prose(text: str) -> str:
    return _FENCED.sub("", text)


def rows(text: str) -> list[list[str]]:
    """Return the cells of all table rows of a page."""
    lines = (line for line in prose(text).splitlines() if line.startswith("| "))
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def refusals(base: type[Refusal] = Refusal) -> list[type[Refusal]]:
    """Return every refusal class with a code of its own."""
    found = []
    for each in base.__subclasses__():
        found += [each] if "code" in vars(each) else []
        found += refusals(each)
    return found


def test_every_setting_of_a_primary_is_explained_with_its_default() -> None:
    told = {row[0]: row[1] for row in rows(page("settings.md")) if row[0].startswith("`primaries.")}
    assert told == {
        f"`primaries.NAME.{each.name}`": _default(each)
        for each in fields(PrimarySettings)
        if each.name != "name"
    }


def test_every_removed_setting_is_explained() -> None:
    section = page("settings.md").partition("## Removed settings\n")[2].partition("\n## ")[0]
    assert all(f"`{name}` (`SUBLET_{name.upper()}`)" in section for name in REMOVED_SETTINGS)


def _default(field: Field[object]) -> str:
    if field.default is MISSING:
        return "required"
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    return f"`{field.default}`" if field.default != "" else "empty"


def test_every_error_code_is_explained_with_its_status() -> None:
    codes = {each.code: str(status_of(each)) for each in refusals()}
    field_codes = dict.fromkeys(FIELD_CODES, "422") | dict.fromkeys(MALFORMED_FIELD_CODES, "400")
    told = {
        row[0].strip("`"): row[1] for row in rows(page("errors.md")) if re.fullmatch(r"`[a-z_]+`", row[0])
    }
    assert told == codes | field_codes


def test_every_endpoint_has_its_section_in_the_order_of_the_contract() -> None:
    text = page("api.md")
    headings = re.findall(r"^### ((?:GET|POST|PUT|PATCH|DELETE) /\S+)$", prose(text), re.MULTILINE)
    endpoints = OPERATIONS
    wanted = [f"{each.method} {each.path}" for each in endpoints]
    assert set(headings) == set(wanted), "docs/api.md has a section for each endpoint"
    assert headings == wanted, "the sections of docs/api.md have the order of sublet.surfaces"
    for endpoint in endpoints:
        section = text.split(f"### {endpoint.method} {endpoint.path}\n", 1)[1].split("\n### ", 1)[0]
        assert f"HTTP {endpoint.status}\n" in section, f"{endpoint.name} shows no success"
        if endpoint.is_open:
            needed = "Needs no token"
        elif endpoint.needs_session:
            needed = "Needs a session"
        else:
            needed = "Any valid token will do" if endpoint.scope is None else f"`{endpoint.scope}`"
        assert needed in section, f"{endpoint.name} does not name its scope"


def test_every_metric_is_explained(service: RunningService) -> None:
    service.add_domain()
    service.register(service.add_user(), "a.example.test", nameservers=["ns1.provider.example"])
    origin = service.origin
    shown = service.client.get(f"{origin}/metrics").text
    metrics = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", shown, re.MULTILINE):
        if not name.endswith("_created"):
            metrics.add((name, kind))
    told = page("operating/monitoring.md")
    assert {name for name, _ in metrics} == set(re.findall(r"^\| `(sublet_\w+)` \|", told, re.MULTILINE))
    for path in ("/healthz", "/readyz"):
        assert service.client.get(origin + path).status_code == 200
        assert f"`{path}`" in told


def test_every_log_line_is_explained() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "src" / "sublet").rglob("*.py"))
    call = r"\b(?:log\.(?:info|warning|error|exception|critical)|write)\(\s*\"([a-z_]+)\""
    logged = {name for source in sources for name in re.findall(call, source)}
    lines = page("operating/monitoring.md").partition("| Line |")[2].splitlines()
    told = {name for line in lines for name in re.findall(r"`([a-z_]+)`", line.rpartition(" | ")[0])}
    assert {name for name in logged if not name.endswith("_fault")} <= told
    assert {name for name in told if not name.endswith("_fault")} <= logged


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_have_existing_targets(path: Path) -> None:
    text = prose(path.read_text(encoding="utf-8"))
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        file, _, anchor = unquote(target).partition("#")
        wanted = (path.parent / file).resolve() if file else path
        assert wanted.exists(), f"{target} leads nowhere"
        assert wanted.is_relative_to(ROOT), f"{target} leads out of the project"
        if anchor:
            assert anchor in anchors(wanted.read_text(encoding="utf-8")), f"{target} has no such heading"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_files_that_a_page_names_exist(path: Path) -> None:
    text = prose(path.read_text(encoding="utf-8"))
    for name in re.findall(r"`((?:src|tests|docs|demo|tools|deploy)/[\w./-]+)`", text):
        if not re.search(r"[A-Z]{2}", name):  # NOUN and VERB are placeholders
            assert (ROOT / name).exists(), f"{name} does not exist"
    # Also relative to a folder, as in where.md.
    for name in re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`", text):
        assert any(each.endswith(f"/{name}") for each in MODULES), f"{name} does not exist"


def test_every_page_is_in_the_index() -> None:
    linked = set(re.findall(r"\]\(([\w/-]+\.md)\)", page("README.md")))
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md") if path.parent.name != "decisions"}
    assert pages - {"README.md"} == linked
