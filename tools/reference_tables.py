"""Write the tables of reference pages that the code determines: `make reference`.

In docs/console.md this is what the console can do; in docs/gates.md who needs a recent sign-in and who gets a
mail. In docs/cli.md these are the heading, the help text and the options of each command; in docs/settings.md
the table of settings; in docs/errors.md the codes of each operation; in docs/operating/trouble.md what
`sublet zone status` says of a problem. Everything else on these pages is written by hand.
tests/docs/test_reference.py fails while a page is out of date.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import typer

from sublet.cli.main import app
from sublet.cli.zone_advice import ADVICE_BY_CAUSE, ADVICE_BY_SYMPTOM
from sublet.config import DESCRIPTIONS, Settings
from sublet.operations.operation import ALWAYS, FOR_OTHER_SESSIONS, IF_PAID, NEVER
from sublet.primaries.primary import CAUSES
from sublet.primaries.zone_answers import ANSWER_CAUSES
from sublet.surfaces import OPERATIONS
from sublet.web.routes import PAGES as CONSOLE_PAGES

DOCS = Path(__file__).parents[1] / "docs"
EVERYWHERE = {"--config", "--json", "--reason"}
"""Options that the page explains once."""


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command of `sublet` with its words, such as `user add`."""
    yield from _below(typer.main.get_command(app), "")


def _below(group: Any, words: str) -> Iterator[tuple[str, Any]]:
    context = typer.Context(group)
    for name in group.list_commands(context):
        command: Any = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from _below(command, f"{words}{name} ")
        else:
            yield f"{words}{name}", command


def options_of(command: Any) -> list[Any]:
    """Return the options that the section of a command lists. Former names of options are hidden."""
    options = [each for each in command.params if each.param_type_name == "option"]
    return [each for each in options if each.opts[0] not in EVERYWHERE and not each.hidden]


def names_of(option: Any) -> str:
    """Return an option's names, such as ``--open`, `--closed``."""
    return ", ".join(f"`{each}`" for each in (*option.opts, *option.secondary_opts))


def describe(option: Any) -> str:
    """Return the meaning of an option, with its default and whether it is required."""
    text: str = option.help
    if isinstance(option.default, int | str) and option.default is not False and "default" not in text:
        text += f" Default: {option.default}."
    return text + (" Required." if option.required else "")


def render_options(words: str, command: Any, by_words: dict[str, Any]) -> str:
    """Return the list of a command's options; an `edit` has those of its `add` that mean the same."""
    options = options_of(command)
    noun, _, verb = words.partition(" ")
    add = by_words.get(f"{noun} add") if verb == "edit" else None
    explained = [(names_of(each), each.help) for each in options_of(add)] if add else []
    own = [each for each in options if (names_of(each), each.help) not in explained]
    missing = [
        names
        for names, text in explained
        if (names, text) not in {(names_of(each), each.help) for each in options}
    ]
    parts = []
    if explained:
        exception = f", except {', '.join(missing)}" if missing else ""
        parts.append(f"Options as for `sublet {noun} add`{exception}.")
    lines = [
        f"- {names_of(each)}{f' {each.metavar}' if each.metavar else ''}: {describe(each)}" for each in own
    ]
    if lines:
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def render_commands(page: str) -> str:
    """Return docs/cli.md with the heading, help text and options of each command as the code has them."""
    by_words = dict(commands())
    first, *sections = page.split("\n### sublet ")
    rendered = [first]
    for section in sections:
        heading, _, text = section.partition("\n")
        words = " ".join(word for word in heading.split() if not re.search("[A-Z]", word))
        command = by_words[words]
        arguments = [each.metavar for each in command.params if each.param_type_name == "argument"]
        _, *paragraphs = text.strip("\n").split("\n\n")
        kept = [each for each in paragraphs if not each.startswith(("- `--", "Options as for "))]
        made = [
            " ".join([words, *arguments]),
            " ".join(command.help.split()),
            render_options(words, command, by_words),
        ]
        rendered.append("\n\n".join(each for each in (*made, *kept) if each) + "\n")
    return "\n### sublet ".join(rendered)


def shown_default(default: object) -> str:
    """Return a default as the settings file has it."""
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{default}`" if default != "" else "empty"


def render_settings(page: str) -> str:
    """Return docs/settings.md with the table of settings as src/sublet/config.py has them."""
    rows = [
        f"| `{each.name}` | {shown_default(each.default)} | {DESCRIPTIONS[each.name]} |"
        for each in fields(Settings)
        if each.name != "primaries"
    ]
    before, heading, rest = page.partition("## All settings\n")
    _, next_heading, after = rest.partition("\n## ")
    table = "\n".join(["", "| Name | Default | Meaning |", "|---|---|---|", *rows, ""])
    return before + heading + table + next_heading + after


def render_problems(page: str) -> str:
    """Return docs/operating/trouble.md with what `sublet zone status` says of each problem of a zone.

    How to recognise a cause, and what a symptom means, is written by hand.
    """
    cells = [re.split(r" ?\| ?", line)[1:-1] for line in page.splitlines() if line.startswith("| `")]
    by_hand = {row[0].strip("`"): row[2 if len(row) == 4 else 1] for row in cells}
    for column, table in (
        ("Cause", [(each, CAUSES[each], by_hand.get(each, ""), ADVICE_BY_CAUSE[each]) for each in CAUSES]),
        (
            "Report",
            [
                (each, ANSWER_CAUSES.get(each) or by_hand.get(each, ""), ADVICE_BY_SYMPTOM[each])
                for each in ADVICE_BY_SYMPTOM
            ],
        ),
    ):
        before, heading, rest = page.partition(f"\n| {column} |")
        title, rule, *_ = rest.split("\n")
        rows = [f"| `{name}` | {' | '.join(others)} |" for name, *others in table]
        page = "\n".join([before + heading + title, rule, *rows]) + "\n\n" + rest.partition("\n\n")[2]
    return page


def operations_tested() -> dict[str, list[str]]:
    """Return the tests in tests/web/ that a marker `operations` names for each operation of the API."""
    found: dict[str, list[str]] = {}
    for path in sorted((DOCS.parent / "tests" / "web").glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.operations":
                    for each in mark.args:
                        # `*("one", "two")` breaks a long list into lines.
                        names = (
                            ast.literal_eval(each.value)
                            if isinstance(each, ast.Starred)
                            else [ast.literal_eval(each)]
                        )
                        for name in names:
                            found.setdefault(name, []).append(f"{path.stem}.{node.name}")
    return found


def render_operations(page: str) -> str:
    """Return docs/console.md with the page and a test of each operation of the API."""
    tests = operations_tested()
    rows = []
    for endpoint in OPERATIONS:
        pages = [each.path for each in CONSOLE_PAGES if endpoint.name in each.operations]
        shown = f"`{pages[0]}`" if pages else ""
        test = tests.get(endpoint.name, [""])[0].partition(".")
        rows.append(
            f"| `{endpoint.method} {endpoint.path}` | {shown} | "
            f"{f'`tests/web/{test[0]}.py`, `{test[2]}`' if test[2] else ''} |"
        )
    before, heading, rest = page.partition("## Operations\n")
    _, next_heading, after = rest.partition("\n## ")
    table = "\n".join(["", "| Operation | Page | Test |", "|---|---|---|", *rows, ""])
    return before + heading + table + next_heading + after


GATES = {
    ALWAYS: "yes",
    FOR_OTHER_SESSIONS: "yes, unless it is the session of the request",
    IF_PAID: "if it costs credits",
    NEVER: "no",
}


def render_gates(page: str) -> str:
    """Return docs/gates.md with the gate of each operation that writes, and who gets a mail, as the
    operations declare them.
    """
    rows = []
    for endpoint in OPERATIONS:
        if (gate := endpoint.gate) is not None:
            needs = GATES[gate.checked] + (", by any method" if gate.any_method else "")
            rows.append(
                f"| `{endpoint.method} {endpoint.path}` | {needs} | {gate.reason} | {endpoint.told} |"
            )
    before, heading, _ = page.partition("## Operations\n")
    title = "| Operation | Needs a recent sign-in | Why, or why not | Who gets a mail |"
    return before + heading + "\n".join(["", title, "|---|---|---|---|", *rows, ""])


def render_checks(page: str) -> str:
    """Return docs/errors.md with the codes of each operation, in the order of its checks.

    The remarks in parentheses are written by hand, and so is what follows the last code.
    """
    before, heading, rest = page.partition("| Endpoint | Then, in this order |\n|---|---|\n")
    table, _, after = rest.partition("\n\n")
    former = dict(line.strip("| ").split(" | ") for line in table.splitlines())
    rows = []
    for endpoint in OPERATIONS:
        name = f"{endpoint.method} {endpoint.path}"
        codes = [refusal.code for refusal in endpoint.refusals]
        rows.append(f"| {name} | {checks_of(codes, former.get(name, ''))} |")
    return before + heading + "\n".join(rows) + "\n\n" + after


def checks_of(codes: list[str], former: str) -> str:
    """Return the codes of an operation with the remarks of the former text."""
    remarks: dict[str, list[str]] = {}
    for code, remark in re.findall(r"`(\w+)`( \([^)]*\))?", former):
        remarks.setdefault(code, []).append(remark)
    shown = [f"`{code}`{remarks[code].pop(0) if remarks.get(code) else ''}" for code in codes]
    _, semicolon, more = re.sub(r"\([^)]*\)", "", former).partition("; ")
    return (", ".join(shown) or "nothing more") + semicolon + more


PAGES = {
    "cli.md": render_commands,
    "console.md": render_operations,
    "errors.md": render_checks,
    "gates.md": render_gates,
    "settings.md": render_settings,
    "operating/trouble.md": render_problems,
}


def main() -> None:
    """Write all pages."""
    for name, render in PAGES.items():
        path = DOCS / name
        former = path.read_text(encoding="utf-8")
        if (text := render(former)) != former:
            path.write_text(text, encoding="utf-8")
            print(f"Changed: docs/{name}.")


if __name__ == "__main__":
    main()
