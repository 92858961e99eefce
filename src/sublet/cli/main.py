"""The console script `sublet`. It imports only the module of the called command.

Exit codes: 0 done; 1 refused, nothing was changed; 2 the command line or the settings are wrong; 3 the
database or a file can't be used, or the output can't be written; 4 `serve` has ended because its SQLite files
were changed.
"""

import errno
import os
import sys
from functools import cache
from importlib import metadata
from io import TextIOWrapper
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperGroup

COMMANDS = {
    "serve": "serve:serve_app",
    "api": "serve:api_app",
    "worker": "serve:worker_app",
    "dns": "serve:dns_app",
    "status": "status:status_app",
    "init": "database:init_app",
    "migrate": "database:migrate_app",
    "copy": "database:copy_app",
    "grants": "database:grants_app",
    "backup": "backup:backup_app",
    "restore": "backup:restore_app",
    "user": "user:user_app",
    "organization": "organization:app",
    "token": "token:app",
    "domain": "domain:app",
    "label": "label:app",
    "credits": "credits:credits_app",
    "package": "credits:package_app",
    "payment": "credits:payment_app",
    "coupon": "credits:coupon_app",
    "subdomain": "subdomain:app",
    "health": "health:app",
    "ticket": "ticket:app",
    "mail": "mail:app",
    "zone": "zone:app",
    "sweep": "sweep:app",
    "audit": "audit:app",
    "doctor": "doctor:app",
    "settings": "status:settings_app",
}
"""The commands in the order of `sublet --help`, each with its module and app in this folder."""


class LazyCommands(TyperGroup):
    """The commands.

    A command is imported when it is called, because importing SQLAlchemy takes longer than most commands run.
    """

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature is typer's
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - the signature is typer's
        """Return the command with this name, or None."""
        return _load_command(cmd_name) if cmd_name in COMMANDS else None


@cache
def _load_command(name: str) -> Any:
    """Import and return a command. The cache is for processes that run several commands, such as the demo."""
    command = typer.main.get_command(resolve_name(f"sublet.cli.{COMMANDS[name]}"))
    command.name = name
    command.short_help = command.help  # typer would cut off the help in the list of commands
    return command


app = typer.Typer(
    cls=LazyCommands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help=(
        "Sublet runs a registry for the names under a domain: the service and the operator's commands. "
        "Each command takes --json, which prints one JSON value to stdout, and --config. Exit codes: 0 "
        "done, 1 refused (nothing was changed), 2 wrong command line or settings, 3 the database can't be "
        "used, 4 the files of the database were changed while the service ran."
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
        Path | None, Option("--config", metavar="FILE", help="The settings file (TOML).")
    ] = None,
    version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Store the path of the settings file for the called command."""
    _ = version
    ctx.obj = config


def main() -> None:
    """Run the command line, and exit."""
    # Python has None for a stream that the caller has closed, such as with `>&-`.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - for the whole run
    # What a terminal without UTF-8 can't show is escaped. Bytes of stdin that aren't UTF-8 become surrogates,
    # which the verbs refuse.
    for stream, errors in ((sys.stdin, "surrogateescape"), (sys.stdout, "backslashreplace")):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=errors)
    try:
        app(prog_name="sublet")
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        from sublet.cli.output import end_unwritten  # noqa: PLC0415 - most commands don't need it here

        end_unwritten(f"The output can't be written: {error.strerror}.")


if __name__ == "__main__":
    main()
