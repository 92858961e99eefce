"""One run of a command: its client, its questions, its payments."""

import logging
import math
import shutil
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import click

from sublet_client import Client
from sublet_client._core import LOGGER
from sublet_client._quotes import Quote
from sublet_client._settings import DEADLINE_SECONDS
from sublet_client.cli.advice import (
    INTERRUPTED,
    NOT_REACHED,
    REFUSED,
    SIGNED_OUT,
    UNPAID,
    UNREACHED,
    USAGE,
    exit_code_of,
    explain,
)
from sublet_client.cli.output import Format, show
from sublet_client.cli.profiles import DEFAULT, find_profile, read_profiles
from sublet_client.exceptions import ApiError, NotInTime, SubletError

T = TypeVar("T")
LONG_WAIT_SECONDS = 2
BAR_CHARACTERS = 20
SECONDS_MAX = 86_400
"""A day. Systems can't wait for much longer times."""
Function = Callable[..., Any]


class Seconds(click.FloatRange):
    """A number of seconds in a range, and not NaN, which is neither below nor above a number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return seconds


class Stop(click.ClickException):
    """The end of a command that failed: what is wrong, the next command, the exit code.

    `result` is what was done before.
    """

    def __init__(
        self, message: str, next_command: str, exit_code: int = REFUSED, *, result: Any = None
    ) -> None:
        super().__init__(message)
        self.next_command = next_command
        self.result = result
        self.exit_code = exit_code  # type: ignore[misc] # click reads it from the instance, as its own errors do

    def show(self, file: Any = None) -> None:
        """Print it."""
        click.echo(f"Error: {self.message}\nNext: {self.next_command}", file=file or sys.stderr)


class Declined(Stop):
    """The end of a command after a person said no or interrupted it, which is no error."""

    def show(self, file: Any = None) -> None:
        """Print it."""
        click.echo(self.message, file=file or sys.stderr)


class Ctl:
    """A run of a command for a profile. `timeout_seconds` is how long it waits for each answer."""

    def __init__(self, profile: str, timeout_seconds: float) -> None:
        self.profile = profile
        self.timeout_seconds = timeout_seconds

    def account(self) -> tuple[str, str]:
        """Return address and token of the profile.

        Raises:
            Stop: there is no address or no token.
        """
        url, token = find_profile(self.profile)
        if url is None or token is None:
            raise self._signed_out(url)
        return url, token

    @contextmanager
    def client(self) -> Generator[Client, None, None]:
        """Give the client of the profile.

        Raises:
            Stop: as `account`.
        """
        with self.connect(*self.account()) as client:
            yield client

    def connect(self, url: str, token: str | None = None) -> Client:
        """Return a client for an address; close it."""
        return Client(url, token, deadline_seconds=self.timeout_seconds)

    def _signed_out(self, url: str | None) -> Stop:
        """Return the end of a command that lacks the address or the token."""
        profiles = read_profiles()
        others = [name for name, stored in profiles.items() if stored.get("url") == url]
        stored_url = profiles.get(self.profile, {}).get("url")
        if url is None or stored_url in (None, url):
            what = "address" if url is None else "token"
            advice = "subletctl login https://HOST, or set SUBLET_URL and SUBLET_TOKEN"
            return Stop(f"There is no {what} for the profile {self.profile}.", advice, SIGNED_OUT)
        sentence = f"The token of the profile {self.profile} is for {stored_url}, and SUBLET_URL is {url}."
        another = (
            f"the same command with --profile {others[0]}"
            if others
            else f"subletctl login {url} --profile NAME"
        )
        return Stop(sentence, f"unset SUBLET_URL, or {another}", SIGNED_OUT)

    @property
    def is_interactive(self) -> bool:
        """True if a person can be asked: both ends are a terminal."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    def ask(self, question: str, next_command: str, *, yes: bool, exit_code: int = REFUSED) -> None:
        """Ask for consent, unless it was given by --yes.

        Raises:
            Stop: the person said no, or there is no terminal to ask on.
        """
        if yes:
            return
        if not self.is_interactive:
            raise Stop(f"{question} There is no terminal to ask on.", next_command, exit_code)
        if not click.confirm(question, err=True):
            raise Declined("Nothing was done.", next_command, exit_code)

    def pay(self, quote: Quote[T], what: str, *, yes: bool, max_credits: int | None, why: str = "") -> T:
        """Confirm a quote.

        If it costs credits, ask first and say `why`, or take `max_credits` with --yes for consent.

        Raises:
            Stop: it costs more than `max_credits`, the balance is too low, or there is no consent.
        """
        if quote.price == 0:
            return quote.confirm()
        price = f"{what} costs {quote.price} credits{why}"
        if quote.details is not None and not quote.details.sufficient:
            raise Stop(
                f"{price}. That is {quote.details.shortfall} more than you have.",
                "subletctl credits packages",
                UNPAID,
            )
        consent = f"the same command with --yes --max-credits {quote.price}"
        if max_credits is not None and quote.price > max_credits:
            raise Stop(f"{price}. That is more than --max-credits {max_credits}.", consent, UNPAID)
        if yes and max_credits is None:
            raise Stop(f"{price}. --yes pays only up to --max-credits.", consent, UNPAID)
        left = "" if quote.details is None else f"; {quote.details.balance_after} are left then"
        self.ask(f"{price}{left}. Pay?", consent, yes=yes, exit_code=UNPAID)
        return quote.confirm(max_credits=quote.price if max_credits is None else max_credits)

    def progress(self, text: str) -> None:
        """Show on a terminal what is being done, cut to one line; an empty text clears it."""
        if sys.stderr.isatty():
            width = shutil.get_terminal_size().columns - 1
            click.echo(f"\r\x1b[K{text[:width]}", nl=False, err=True)

    def progress_bar(self, done: int, total: int, text: str) -> None:
        """Show on a terminal how many of several steps are done, and what is being done."""
        full = BAR_CHARACTERS * done // max(total, 1)
        self.progress(f"[{'#' * full}{'-' * (BAR_CHARACTERS - full)}] {done}/{total} {text}")


class _Progress(logging.Handler):
    """Shows the client's messages about retries as the progress of a command.

    Without a terminal it prints the long waits, such as those for a rate limit, so that a log tells what a
    command waits for.
    """

    def __init__(self, ctl: Ctl) -> None:
        super().__init__()
        self._ctl = ctl

    def emit(self, record: logging.LogRecord) -> None:
        """Show a message, which has the operation, the seconds of the pause, and the reason."""
        if sys.stderr.isatty():
            self._ctl.progress(record.getMessage())
        elif isinstance(record.args, tuple) and record.args[1] >= LONG_WAIT_SECONDS:  # type: ignore[operator]
            click.echo(record.getMessage(), err=True)


def command(
    group: click.Group | None, name: str, *, uses: Sequence[str] = (), columns: Sequence[str] = ()
) -> Callable[[Function], click.Command]:
    """Make a command of a function that takes a `Ctl` and the parameters, and returns what is printed.

    `uses` are the operations of the API that it calls, `columns` those of its table for people.
    """

    def decorate(function: Function) -> click.Command:
        def run(
            *,
            profile: str,
            timeout: float,
            json_fields: str | None,
            template: str | None,
            quiet: bool,
            **given: Any,
        ) -> None:
            ctl = Ctl(profile, timeout)
            LOGGER.setLevel(logging.INFO)
            LOGGER.addHandler(_Progress(ctl))
            wanted = Format(json_fields, template, quiet)
            try:
                with _explained():
                    _show_done(function(ctl, **given), columns, wanted)
            except Stop as stop:
                ctl.progress("")
                show(stop.result, columns, wanted)
                raise
            finally:
                ctl.progress("")

        run.__doc__ = function.__doc__
        options = [option(run) for option in _OPTIONS] and run.__click_params__  # type: ignore[attr-defined] # click adds it
        run.__click_params__ = [*options, *getattr(function, "__click_params__", [])]  # type: ignore[attr-defined] # as above
        made = click.command(name, no_args_is_help=False)(run)
        made.uses = tuple(uses)  # type: ignore[attr-defined] # for the table of operations
        if group is not None:
            group.add_command(made)
        return made

    return decorate


_OPTIONS = (
    click.option("--quiet", "-q", is_flag=True, help="Print only the key of each row."),
    click.option("--template", metavar="TEXT", help="Print this for each row, such as '{fqdn} {status}'."),
    click.option(
        "--json", "json_fields", metavar="FIELDS", help="Print these members as JSON, or `all`: fqdn,status."
    ),
    click.option(
        "--profile",
        envvar="SUBLET_PROFILE",
        default=DEFAULT,
        metavar="NAME",
        help="The stored account to use.",
    ),
    click.option(
        "--timeout",
        envvar="SUBLET_DEADLINE_SECONDS",
        type=Seconds(min=0, max=SECONDS_MAX, min_open=True),
        default=DEADLINE_SECONDS,
        metavar="SECONDS",
        help="How long to wait for each answer; by default 75.",
    ),
)


def with_consent(function: Function) -> Function:
    """Add the options of commands that may spend credits."""
    most = click.option("--max-credits", type=click.IntRange(min=0), metavar="N", help="Pay at most this.")
    coupon = click.option("--coupon", metavar="CODE", help="A coupon.")
    return with_yes(most(coupon(function)))


def with_yes(function: Function) -> Function:
    """Add the option of commands that ask."""
    return click.option("--yes", "-y", is_flag=True, help="Don't ask.")(function)


def _show_done(result: Any, columns: Sequence[str], wanted: Format) -> None:
    """Print the result of a command, which may be a change that must not be made twice."""
    try:
        show(result, columns, wanted)
    except OSError as error:
        if isinstance(error, BrokenPipeError) or error.filename is not None:
            raise
        sentence = f"The command is done, but its output can't be written: {error.strerror}."
        raise Stop(sentence, "see what it did before you run it again", USAGE) from error


@contextmanager
def _explained() -> Generator[None, None, None]:
    """Turn the errors of the client into ends of the command with a next command."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader has enough, such as `head`: click then ends without a word
    except (KeyboardInterrupt, click.Abort) as error:
        raise Declined("Interrupted.", "the same command again", INTERRUPTED) from error
    except (SubletError, ValueError, OSError) as error:
        raise stop_of(error) from error


def stop_of(error: BaseException, name: str | None = None) -> Stop:
    """Return the end of a command for an error.

    `name` is the name that it is about, by default that of the command line.
    """
    context = click.get_current_context()
    command = f"subletctl {context.command_path.partition(' ')[2]}".strip()
    names: Sequence[str] = context.params.get("names") or ()
    given = context.params.get("name") or (names[0] if len(names) == 1 else None)
    if isinstance(error, ApiError):
        sentence, next_command = explain(
            error, name or (given if isinstance(given, str) else "NAME"), command
        )
        return Stop(sentence, next_command, exit_code_of(error.code, error.status))
    if isinstance(error, KeyboardInterrupt):
        return Stop("Interrupted. The change may have been made.", "the same command again", INTERRUPTED)
    if isinstance(error, UnicodeError):
        return Stop("The input isn't UTF-8. Convert it.", f"{command} --help", USAGE)
    if isinstance(error, NotInTime):
        return Stop(str(error), f"subletctl watch --settled {name or given or ''}".strip(), UNREACHED)
    if isinstance(error, SubletError):
        return Stop(str(error), NOT_REACHED, UNREACHED)
    if isinstance(error, OSError) and error.filename is not None:
        sentence = f"{error.filename}: {error.strerror}. Check the path and its permissions."
        return Stop(sentence, f"{command} --help", USAGE)
    return Stop(str(error), f"{command} --help", USAGE)


group = partial(click.group, context_settings={"help_option_names": ["--help", "-h"]})
