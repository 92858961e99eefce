"""Write the man page of `subletctl` from its commands. `make client` runs it, and a test compares."""

import re
from collections.abc import Iterator
from pathlib import Path

import click

from sublet_client.cli.advice import EXIT_CODES
from sublet_client.cli.main import COMMANDS, root

ROOT = Path(__file__).resolve().parent.parent
MAN_PAGE = ROOT / "clients/python/data/share/man/man1/subletctl.1"
VARIABLES = {
    "SUBLET_URL": "The address of the API, before that of the profile.",
    "SUBLET_TOKEN": "The token, before that of the profile.",
    "SUBLET_PROFILE": "The profile; by default `default`.",
    "SUBLET_DEADLINE_SECONDS": "How long to wait for each answer, as `--timeout` says; by default 75.",
    "NO_COLOR": "If it is set, output has no colours.",
}
OF_EACH = ("profile", "timeout", "json_fields", "template", "quiet")
"""The options that each command has."""


def main() -> None:
    """Write it."""
    MAN_PAGE.parent.mkdir(parents=True, exist_ok=True)
    MAN_PAGE.write_text(man_page(), encoding="utf-8")


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield each command with its words, such as `names list`."""
    context = click.Context(root)
    for name in COMMANDS:
        found = root.get_command(context, name)
        if isinstance(found, click.Group):
            yield from ((f"{name} {each}", command) for each, command in found.commands.items())
        elif found is not None:
            yield name, found


def man_page() -> str:
    """Return the page for `man subletctl`."""
    lines = [
        '.TH SUBLETCTL 1 "" "sublet-client" "User commands"',
        ".SH NAME",
        "subletctl \\- the command line of registrants of a registry that runs Sublet",
        ".SH SYNOPSIS",
        "\\fBsubletctl\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]",
        ".SH DESCRIPTION",
        _roff(root.help or ""),
        ".SH COMMANDS",
    ]
    for words, command in commands():
        lines += _entry(words, command)
    lines.append(".SH ENVIRONMENT")
    for name, about in VARIABLES.items():
        lines += [".TP", f"\\fB{name}\\fR", _roff(about)]
    lines.append(".SH EXIT STATUS")
    for code, meaning in EXIT_CODES.items():
        lines += [".TP", f"\\fB{code}\\fR", _roff(meaning)]
    lines += [".SH FILES", ".TP", "\\fB~/.config/subletctl/profiles.json\\fR"]
    lines.append(
        _roff("Addresses by profile, and tokens if there is no keyring. Only its owner can read it.")
    )
    return "\n".join(lines) + "\n"


def _entry(words: str, command: click.Command) -> Iterator[str]:
    arguments = [
        each.make_metavar(click.Context(command))
        for each in command.params
        if isinstance(each, click.Argument)
    ]
    yield f".SS subletctl {_roff(' '.join([words, *arguments]))}"
    yield _roff(command.help or "")
    for each in command.params:
        if isinstance(each, click.Option) and not words.startswith("-"):
            shown = each.get_help_record(click.Context(command))
            if shown is not None and each.name not in OF_EACH:
                yield from (".TP", f"\\fB{_roff(shown[0])}\\fR", _roff(shown[1]))


def _roff(text: str) -> str:
    """Return a text for roff: paragraphs, and no character that would be an instruction."""
    plain = re.sub(r"[ \n]*\n\n[ \n]*", "\x00", text.strip())
    plain = " ".join(plain.split()).replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    return "\n.PP\n".join(
        f"\\&{each}" if each.startswith((".", "'")) else each for each in plain.split("\x00")
    )


if __name__ == "__main__":
    main()
