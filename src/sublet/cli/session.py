"""Define and run commands: load the settings, open the database, print the answer or refusal."""

import asyncio
import errno
import inspect
import os
import pwd
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

import structlog
import typer
from msgspec import Struct
from typer.core import TyperCommand

from sublet.audit import Actor
from sublet.cli.options import Reason
from sublet.cli.output import Answer, end_unwritten, print_answer, print_refusal, print_warning
from sublet.config import Settings, SettingsError, load_settings
from sublet.db import Database, PartT, Tx, open_database, write_parts
from sublet.errors import FILES_CHANGED, REFUSED, UNAVAILABLE, USAGE, FilesChanged, Refusal, Unavailable
from sublet.schema_revision import refuse_missing, refuse_unusable

P = ParamSpec("P")
R = TypeVar("R")


class Session(Struct, frozen=True):
    """The settings of a command, and its operator (the user of the operating system)."""

    settings: Settings
    actor: Actor
    config: Path | None = None
    """The settings file from the command line, if given."""

    def not_mailed(self) -> tuple[str, ...]:
        """Return a line that the mail of the command isn't sent, if the settings don't name a mail server."""
        if self.settings.mail_transport != "log":
            return ()
        return ("It is only logged, because mail_transport is log: see docs/operating/mail.md.",)

    def read(self, fn: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a function in a read-only transaction, and return its result.

        Raises the same errors as `write`.
        """
        return self.use(lambda database: database.read(lambda tx: fn(tx, *args, **kwargs)))

    def write(self, verb: Callable[Concatenate[Tx, Actor, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a verb as the operator in a transaction, and return its result after the commit.

        Raises:
            Refusal: the verb raised it. Nothing was changed.
            Unavailable: the database is missing, not initialised, of another version, or can't be written.
        """
        return self.use(lambda database: database.write(lambda tx: verb(tx, self.actor, *args, **kwargs)))

    def write_parts(
        self, verb: Callable[Concatenate[Tx, Actor, P], PartT], /, *args: P.args, **kwargs: P.kwargs
    ) -> list[PartT]:
        """Run a verb as the operator with `sublet.db.write_parts`. Raises the same errors as `write`."""

        async def write_all(database: Database) -> list[PartT]:
            return [part async for part in write_parts(database, verb, self.actor, *args, **kwargs)]

        return self.use(write_all)

    def use(self, fn: Callable[[Database], Awaitable[R]]) -> R:
        """Run a function that opens its transactions itself and uses the network between them, and return its
        result.

        Raises the same errors as `write`.
        """
        return asyncio.run(_use(self.settings, fn))


async def _use(settings: Settings, fn: Callable[[Database], Awaitable[R]]) -> R:
    refuse_missing(settings.database_url)
    database = open_database(settings.database_url, may_lose_writes=settings.database_may_lose_writes)
    try:
        await database.read(refuse_unusable)
        return await fn(database)
    finally:
        await database.close()


def operator_name() -> str:
    """Return the operator's name for the audit: the user of the process.

    It comes from the password database, because the environment can lie.
    """
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def new_app(about: str | None = None) -> typer.Typer:
    """Return a typer app without commands.

    `about` is the help of an app with several commands. The help of an app with one command is the command's
    docstring.

    The help is plain text, because the tables of `rich` cut off names and values at 80 columns.
    """
    return typer.Typer(
        help=about, no_args_is_help=about is not None, add_completion=False, rich_markup_mode=None
    )


_NEGATIVE_NUMBER = re.compile(r"-[0-9]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Python's form of a byte that isn't UTF-8. Neither a database nor JSON can have it."""


class _Command(TyperCommand):
    """A command that accepts a negative number such as `-5` as an argument, and its former arguments."""

    former_arguments: Sequence[str] = ()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line. If it has a negative number, unknown options count as arguments."""
        if any(_SURROGATE.search(each) for each in args):
            raise typer.BadParameter(
                "The command line is not valid UTF-8. Check the encoding of the terminal."
            )
        ctx.ignore_unknown_options = any(_NEGATIVE_NUMBER.fullmatch(each) for each in args)
        arguments = [each.name for each in self.params if each.param_type_name == "argument"]
        options = {
            each.name: each.opts[0]
            for each in self.params
            if each.name in self.former_arguments and each.name not in arguments
        }
        given, values, _ = self.make_parser(ctx).parse_args(list(args))
        if not options or len(values) != len(options) or not given.keys().isdisjoint(options):
            return super().parse_args(ctx, args)
        ctx.default_map, ctx.allow_extra_args = dict(zip(options, values, strict=True)), True
        super().parse_args(ctx, args)
        in_order = [ctx.params[each] for each in (*arguments, *options)]
        ctx.params.update(zip(self.former_arguments, in_order, strict=True))
        print_warning(
            f"This form of `{ctx.command_path}` will be removed. Give {' and '.join(options.values())}; "
            "see --help."
        )
        return []


def parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    """Return a parameter of a command. Typer reads its option or argument from `annotation`."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_CONTEXT = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
_CONFIG = parameter(
    "config",
    Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The settings file (TOML).")],
)
_JSON = parameter(
    "as_json",
    Annotated[
        bool, typer.Option("--json", help="Print one JSON value to stdout, and all other output to stderr.")
    ],
    default=False,
)
_REASON = parameter("reason", Reason)

Command = Callable[Concatenate[Session, P], Answer]


def command(app: typer.Typer, name: str) -> Callable[[Command[P]], Command[P]]:
    """Return a decorator that adds a command without --reason.

    The function gets a session and its options, and returns the answer.
    """
    return _add_command(app, name, [])


def audited_command(
    app: typer.Typer,
    name: str,
    options: Sequence[inspect.Parameter] = (),
    *,
    former_arguments: Sequence[str] = (),
) -> Callable[[Command[P]], Command[P]]:
    """Return a decorator that adds a command with --reason, which goes into the audit.

    `options` are further keyword arguments of the function.

    The function gets the reason too if it has a parameter `reason`. `former_arguments` are the parameters
    that were all positional before, in that order. This form is still accepted, with a warning.
    """
    return _add_command(app, name, [_REASON], options, former_arguments)


def _add_command(
    app: typer.Typer,
    name: str,
    common: Sequence[inspect.Parameter],
    options: Sequence[inspect.Parameter] = (),
    former_arguments: Sequence[str] = (),
) -> Callable[[Command[P]], Command[P]]:
    def register(function: Command[P]) -> Command[P]:
        declared = list(inspect.signature(function).parameters.values())[1:]
        own_parameters = [
            *(each.replace(kind=_JSON.kind) for each in declared if each.kind is not each.VAR_KEYWORD),
            *options,
        ]
        names = {each.name for each in own_parameters}

        def run(**arguments: Any) -> None:
            chosen = {name: value for name, value in arguments.items() if name in names}
            _run_guarded(
                lambda session: function(session, **chosen),  # type: ignore[call-arg] # typer passes keyword arguments
                arguments["config"] or arguments["ctx"].obj,
                arguments.get("reason"),
                json_only=arguments["as_json"],
            )

        missing = [each for each in common if each.name not in names]
        signature = inspect.Signature([_CONTEXT, *own_parameters, *missing, _CONFIG, _JSON])
        run.__signature__ = signature  # type: ignore[attr-defined] # typer reads it
        run.__doc__ = function.__doc__
        kind = type("Command", (_Command,), {"former_arguments": former_arguments})
        # Without `short_help` typer cuts off the help in the list of commands.
        app.command(name, cls=kind, short_help=inspect.getdoc(function))(run)
        return function

    return register


def _exit_code(refusal: Refusal) -> int:
    if isinstance(refusal, FilesChanged):
        return FILES_CHANGED
    return UNAVAILABLE if isinstance(refusal, Unavailable) else REFUSED


def _run_guarded(
    run: Callable[[Session], Answer], config: Path | None, reason: str | None, *, json_only: bool
) -> None:
    # Log nothing, because the refusal that is printed says the same.
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(50),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        settings = load_settings(config, warn=print_warning)
        actor = Actor(kind="operator", name=operator_name(), reason=reason)
        answer = run(Session(settings, actor, config))
    except SettingsError as error:
        print_refusal("settings_invalid", str(error), json_too=json_only)
        raise typer.Exit(USAGE) from None
    except Refusal as refusal:
        # The notes of `unavailable_refusal` are for operators only.
        message = " ".join((refusal.message, *getattr(refusal, "__notes__", ())))
        print_refusal(refusal.code, message, refusal.errors, json_too=json_only)
        raise typer.Exit(_exit_code(refusal)) from None
    except OSError as error:
        if error.filename is None:
            raise  # of the network, or a bug
        message = f"{error.filename}: {error.strerror}. Check the path and its permissions."
        print_refusal(Unavailable.code, message, json_too=json_only)
        raise typer.Exit(UNAVAILABLE) from None
    try:
        print_answer(answer, json_only=json_only)
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # the reader has read enough, such as `head`
        end_unwritten(f"The command is done, but its output can't be written: {error.strerror}.")
    if answer.exit_code:
        raise typer.Exit(answer.exit_code)
