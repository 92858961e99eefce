"""Commands for several names: names of the command line and of a file, a preview with the price, consent, and
the steps one after the other.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import IO, Any, Generic, TypeVar

import click

from sublet_client import Client
from sublet_client._errors import InsufficientScope
from sublet_client.cli.advice import INTERRUPTED, NEXT, PARTLY, REFUSED, UNPAID
from sublet_client.cli.session import Ctl, Function, Stop, stop_of
from sublet_client.exceptions import ApiError, SubletError
from sublet_client.models import Subdomain
from sublet_client.spelling import parse_name

T = TypeVar("T")
SHOWN_NAMES_MAX = 10


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """What a command does to one name: its price in credits, the line of the preview, and what it acts on."""

    fqdn: str
    line: str
    about: T
    price: int = 0


def with_names(function: Function) -> Function:
    """Add the argument and the option of commands that take several names.

    The function gets `names`, each once.
    """

    @wraps(function)
    def run(ctl: Ctl, *, names: tuple[str, ...], from_file: IO[str] | None, **given: Any) -> Any:
        return function(ctl, names_of(names, from_file), **given)

    return click.argument("names", nargs=-1, metavar="NAME...")(with_file(run))


def with_file(function: Function) -> Function:
    """Add the option of a file of names."""
    return click.option(
        "--from",
        "from_file",
        type=click.File(encoding="utf-8"),
        metavar="FILE",
        help="Take the names of this file too, one in a line; - for standard input.",
    )(function)


def names_of(names: Iterable[str], file: IO[str] | None) -> tuple[str, ...]:
    """Return the names of the command line and those of a file, each once in the API's spelling.

    Lines that begin with # are comments.

    Raises:
        UsageError: there is none.
    """
    lines = [] if file is None else [line.strip() for line in file]
    given = [*names, *(line for line in lines if line and not line.startswith("#"))]
    if not given:
        raise click.UsageError("Give a name, or --from FILE.")
    found = tuple(dict.fromkeys(map(spell, given)))
    click.get_current_context().params["names"] = found  # for the sentences of errors
    return found


def spell(name: str) -> str:
    """Return a name in the API's spelling; an id, and what is no name, as it is: the registry then says what
    is wrong.
    """
    try:
        return parse_name(name)
    except ValueError:
        return name


def find_all(ctl: Ctl, names: Sequence[str], find: Callable[[str], Item[T]]) -> list[Item[T]]:
    """Return an item for each name.

    Raises:
        Stop: some names can't be found or changed; the sentence has all of them.
    """
    found: dict[str, Item[T]] = {}
    wrong: list[Stop] = []
    for number, name in enumerate(names):
        ctl.progress_bar(number, len(names), f"{name} …")
        try:
            item = find(name)
            found[item.fqdn] = item
        except Stop as stop:
            wrong.append(stop)
        except ApiError as error:
            wrong.append(stop_of(error, name))
    ctl.progress("")
    if wrong:
        sentences = "\n".join(each.message for each in wrong[:SHOWN_NAMES_MAX])
        more = len(wrong) - SHOWN_NAMES_MAX
        message = f"{sentences}\n… and {more} more." if more > 0 else sentences
        raise Stop(f"Nothing was done. {message}", wrong[0].next_command, wrong[0].exit_code)
    return list(found.values())


def do_all(
    ctl: Ctl,
    client: Client,
    items: Sequence[Item[T]],
    act: Callable[[Item[T]], Any],
    *,
    question: str,
    yes: bool,
    max_credits: int | None = None,
) -> list[Any]:
    """Show the items with their price, ask, and act on each. Return the results.

    Raises:
        Stop: there is no consent, or an item failed: those before it stay done.
    """
    price = sum(each.price for each in items)
    balance = find_balance(client) if price else None
    have = "" if balance is None else f" (you have {balance})"
    for each in items:
        click.echo(f"{each.line} for {each.price} credits" if each.price else each.line, err=True)
    click.echo(f"{len(items)} names for {price} credits{have}.", err=True)
    consent(ctl, client, price, balance, question=question, yes=yes, max_credits=max_credits)
    return act_on_all(ctl, items, lambda each: each.fqdn, act)


def act_on_all(
    ctl: Ctl, items: Sequence[T], name_of: Callable[[T], str], act: Callable[[T], Any]
) -> list[Any]:
    """Act on each item, with a progress bar, and return the results.

    Raises:
        Stop: one failed. It has the results so far, and the sentence has the names that are left.
    """
    results: list[Any] = []
    try:
        for number, each in enumerate(items):
            ctl.progress_bar(number, len(items), f"{name_of(each)} …")
            results.append(act(each))
    except (SubletError, KeyboardInterrupt) as error:
        left = [name_of(each) for each in items[len(results) :]]
        stop = stop_of(error, left[0])
        begin = f"{len(results)} of {len(items)} done; " if results else ""
        sentence = f"{begin}{left[0]} failed: {stop.message}"
        if results:
            more = len(left) - SHOWN_NAMES_MAX
            names = ", ".join(left[:SHOWN_NAMES_MAX])
            sentence += f"\n  Not done: {names}{f' and {more} more' if more > 0 else ''}"
        exit_code = PARTLY if results and stop.exit_code != INTERRUPTED else stop.exit_code
        raise Stop(sentence, stop.next_command, exit_code, result=results or None) from error
    finally:
        ctl.progress("")
    return results


def consent(
    ctl: Ctl,
    client: Client,
    price: int,
    balance: int | None,
    *,
    question: str = "Do it?",
    yes: bool,
    max_credits: int | None,
) -> None:
    """Ask for consent to a plan with this price, or take --yes for it.

    `balance` is what the account has, None if it is unknown.

    Raises:
        Stop: there is no consent, the price is more than `max_credits` or than there is, or the token may not
            spend.
    """
    if balance is not None and price > balance:
        sentence = f"The plan costs {price} credits, {price - balance} more than you have."
        raise Stop(sentence, "subletctl credits packages", UNPAID)
    if price and not _may_spend(client):
        raise Stop(
            f"The plan costs {price} credits, and this token may not spend any.", NEXT["insufficient_scope"]
        )
    again = f"the same command with --yes{f' --max-credits {price}' if price else ''}"
    if price and (yes or max_credits is not None) and price > (max_credits or 0):
        raise Stop(f"The plan costs {price} credits, more than --max-credits.", again, UNPAID)
    ctl.ask(question, again, yes=yes, exit_code=UNPAID if price else REFUSED)


def find_balance(client: Client) -> int | None:
    """Return the balance in credits; None if the token may not see it."""
    try:
        return client.credits.get().credit_balance
    except InsufficientScope:
        return None


def _may_spend(client: Client) -> bool:
    token = client.account.me().token
    return token is None or "credits:spend" in token.scopes


def refuse_coupon(coupon: str | None) -> None:
    """Raise UsageError if there is a coupon: it is for one name."""
    if coupon is not None:
        raise click.UsageError("A coupon is for one name. Leave --coupon out, or give one name.")


def find_in_trash(client: Client) -> dict[str, Subdomain]:
    """Return the names in the trash, by name and by id."""
    found: dict[str, Subdomain] = {}
    for each in client.subdomains.list(status="trashed"):
        found[each.fqdn] = found[str(each.id)] = each
    return found
