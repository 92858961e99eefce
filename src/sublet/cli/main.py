"""The console script `sublet`: finds the noun of a command line and imports only that one's file.

Exit codes: 0 done; 1 refused, nothing was changed; 2 the command line or the settings are wrong; 3 the database can't be
used (not there, not initialised, not of this version, locked).
"""

from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sublet.cli.leftover_time import go_on_in_child
from sublet.processors import give_way, own_process

NOUNS = (
    "serve",
    "api",
    "worker",
    "dns",
    "status",
    "init",
    "migrate",
    "copy",
    "grants",
    "backup",
    "restore",
    "user",
    "token",
    "domain",
    "label",
    "credits",
    "package",
    "payment",
    "coupon",
    "subdomain",
    "ticket",
    "mail",
    "zone",
    "sweep",
    "doctor",
    "settings",
)
"""The commands in the order of `sublet --help`; each has a file of its name here with an `app`."""
UNHURRIED = (("zone", "check"),)
"""The commands that let the service on the same host go first: they work for seconds, and may be asked for by a timer."""
_COMPLETION = ("install_completion", "show_completion")


class Nouns(TyperGroup):
    """The commands, each imported when it is asked for: the database's library takes longer than a command."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature is typer's
        """Return the names of all commands."""
        return list(NOUNS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that a command line names, with what is left of it; one that is unhurried gives way before it loads."""
        if tuple(args[:2]) in UNHURRIED and give_way():
            go_on_in_child()
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - as above
        """Return the command of a name, or None."""
        return _noun(cmd_name) if cmd_name in NOUNS else None


@cache
def _noun(name: str) -> Any:
    """Return the command of a noun, built once by a process that runs several (the demo)."""
    command = typer.main.get_command(import_module(f"sublet.cli.{name}").app)
    # typer gives these to whatever it takes for the top; here they would stand beside each noun's own options.
    command.params = [each for each in command.params if each.name not in _COMPLETION]
    command.name = name
    command.short_help = command.help  # in the list of the nouns: all of it, where typer would cut it off
    return command


app = typer.Typer(
    cls=Nouns,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help=(
        "Sublet lets subdomains: the registry's server and its operator's commands. Each command takes --json, which makes "
        "stdout one JSON value, and --config. Exit codes: 0 done, 1 refused (nothing was changed), 2 wrong command line or "
        "settings, 3 the database can't be used."
    ),
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"sublet {metadata.version('sublet')}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="The settings file (TOML).")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Keep what stands before the command for it."""
    _ = version
    ctx.obj = config


def main() -> None:
    """Run the command line of this process; never returns."""
    own_process()
    app(prog_name="sublet")


if __name__ == "__main__":
    main()
