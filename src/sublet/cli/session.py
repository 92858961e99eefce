"""Run a command: load the settings, give it access to the database, and print its answer or refusal."""

import asyncio
import inspect
import os
import pwd
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

import structlog
import typer

from sublet.audit import Actor
from sublet.cli.commands import CommandWithNumbers
from sublet.cli.output import Answer, print_answer, print_refusal, print_warning
from sublet.config import Settings, SettingsError, load_settings
from sublet.db import Database, Tx, open_database
from sublet.errors import Refusal, Unavailable
from sublet.schema_revision import refuse_unusable
from sublet.service.exit_codes import REFUSED, UNAVAILABLE, USAGE

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Session:
    """The settings of a command, and the operator who runs it (the user of the operating system)."""

    settings: Settings
    actor: Actor
    config: Path | None = None
    """The settings file that the command line names, if any."""

    def read(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function in one read-only transaction, and return its result.

        Raises:
            Refusal: as the function; Unavailable as `write`.
        """
        return asyncio.run(_run(self.settings, "read", lambda tx: fn(tx, *args, **kwargs)))

    def write(self, verb: Callable[Concatenate[Tx, Actor, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a verb as the operator in one transaction, and return its result after the commit.

        Raises:
            Refusal: as the verb; nothing was changed.
            Unavailable: the database is missing, not initialised, of another version, or can't be written.
        """
        return asyncio.run(_run(self.settings, "write", lambda tx: verb(tx, self.actor, *args, **kwargs)))

    def use(self, fn: Callable[[Database], Awaitable[R]]) -> R:
        """Run a function that uses the network between its own transactions, and return its result.

        Raises:
            Refusal: as the function; Unavailable as `write`.
        """
        return asyncio.run(_use(self.settings, fn))


def refuse_missing(url: str) -> None:
    """Raise `Unavailable` if the address is that of an SQLite file which doesn't exist."""
    # SQLite would create the file. A typing error in the address must not leave an empty database behind.
    if url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).exists():
        raise Unavailable(f"There is no registry at {url}; run `sublet init` first.")


async def _run(settings: Settings, mode: str, fn: Callable[[Tx], R]) -> R:
    return await _use(settings, lambda database: database.write(fn) if mode == "write" else database.read(fn))


async def _use(settings: Settings, fn: Callable[[Database], Awaitable[R]]) -> R:
    refuse_missing(settings.database_url)
    database = open_database(
        settings.database_url, may_lose_writes=settings.database_may_lose_writes == "yes"
    )
    try:
        await database.read(refuse_unusable)
        return await fn(database)
    finally:
        await database.close()


def operator_name() -> str:
    """Return the name of the operator for the audit: the user of this process, not the one that the environment names."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


_JSON = inspect.Parameter(
    "as_json",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--json", help="Print one JSON value, and all else to stderr.")],
)
_CONFIG = inspect.Parameter(
    "config",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="The settings file (TOML).")
    ],
)
_REASON = inspect.Parameter(
    "reason",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        str | None,
        typer.Option("--reason", metavar="TEXT", help="Why; the audit stores it."),
    ],
)
_CONTEXT = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)

Command = Callable[Concatenate[Session, P], Answer]


def question(app: typer.Typer, name: str) -> Callable[[Command[P]], Command[P]]:
    """Add a command that only reads. The function takes a session and its options, and returns the answer."""
    return _command(app, name, [])


def change(app: typer.Typer, name: str) -> Callable[[Command[P]], Command[P]]:
    """Add a command that changes something. It takes --reason, which is also passed to the function if that has the parameter."""
    return _command(app, name, [_REASON])


def _command(
    app: typer.Typer, name: str, more: list[inspect.Parameter]
) -> Callable[[Command[P]], Command[P]]:
    def register(function: Command[P]) -> Command[P]:
        own = list(inspect.signature(function).parameters.values())[1:]
        names = {parameter.name for parameter in own}
        missing = [each for each in more if each.name not in names]
        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]

        def run(**arguments: Any) -> None:
            as_json, config = arguments.pop("as_json"), arguments.pop("config")
            ctx, reason = arguments.pop("ctx"), arguments.get("reason")
            chosen = {each: value for each, value in arguments.items() if each in names}
            _guarded(
                lambda session: function(session, **chosen),  # type: ignore[call-arg] # by name, as typer gives them
                config or ctx.obj,
                reason,
                as_json=as_json,
            )

        signature = inspect.Signature([_CONTEXT, *parameters, *missing, _CONFIG, _JSON])
        run.__signature__ = signature  # type: ignore[attr-defined] # typer reads it
        run.__doc__ = function.__doc__
        # In the list of a noun's verbs: all of it, where typer would cut it off.
        app.command(name, cls=CommandWithNumbers, short_help=inspect.getdoc(function))(run)
        return function

    return register


def _guarded(
    run: Callable[[Session], Answer], config: Path | None, reason: str | None, *, as_json: bool
) -> None:
    # A failure is printed once, as a sentence. The log would repeat it, and stdout has only the answer.
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(50),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        settings = load_settings(config, warn=print_warning)
        actor = Actor(kind="operator", name=operator_name(), reason=reason)
        answer = run(Session(settings, actor, config))
    except SettingsError as error:
        print_refusal("settings_invalid", str(error), as_json=as_json)
        raise typer.Exit(USAGE) from None
    except Refusal as refusal:
        print_refusal(refusal.code, refusal.message, refusal.errors, as_json=as_json)
        raise typer.Exit(UNAVAILABLE if isinstance(refusal, Unavailable) else REFUSED) from None
    print_answer(answer, as_json=as_json)
    if answer.exit_code:
        raise typer.Exit(answer.exit_code)
