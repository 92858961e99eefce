"""`export` and `apply`: many names in one YAML file."""

import sys
from collections.abc import Iterator, Sequence
from typing import IO, Any

import click
import yaml

from sublet_client import Client
from sublet_client._errors import SubdomainUnavailable
from sublet_client.cli.advice import UNPAID
from sublet_client.cli.names import waited
from sublet_client.cli.plan import Step, Wanted, as_document, parse_names, step_to
from sublet_client.cli.session import Ctl, Stop, command, with_yes
from sublet_client.models import Subdomain

FILE_BYTES_MAX = 10_000_000


@command(None, "export", uses=("list_subdomains",))
@click.argument("names", nargs=-1)
@click.option("--domain", help="Only names under this platform domain.")
def export(ctl: Ctl, names: tuple[str, ...], domain: str | None) -> None:
    """Write NAMES, or all your names, as YAML to standard output, for `subletctl apply`."""
    with ctl.client() as client:
        found = [each for each in client.subdomains.list(domain=domain) if not names or each.fqdn in names]
    for missing in set(names) - {each.fqdn for each in found}:
        raise Stop(f"You have no name {missing}.", "subletctl names list")
    yaml.safe_dump(as_document(found), sys.stdout, sort_keys=False, allow_unicode=True)


@command(
    None,
    "apply",
    uses=("list_subdomains", "availability", "register", "update_nameservers"),
    columns=("fqdn", "status", "action", "charged_credits"),
)
@click.option(
    "--file",
    "-f",
    type=click.File(encoding="utf-8"),
    required=True,
    help="The YAML file, or - for standard input.",
)
@click.option("--plan", "only_plan", is_flag=True, help="Show the plan, and change nothing.")
@click.option("--wait", "waits", is_flag=True, help="Wait until all changes are in the DNS.")
@click.option(
    "--max-credits", type=click.IntRange(min=0), metavar="N", help="Pay at most this for all registrations."
)
@with_yes
def apply(
    ctl: Ctl, file: IO[str], only_plan: bool, waits: bool, yes: bool, max_credits: int | None
) -> list[dict[str, Any]] | None:
    """Make names what a YAML file says: show the plan, ask, and do it.

    Names that the file doesn't have stay as they are, and so do members that it leaves out. A second run has nothing left to do.
    """
    wanted = parse_names(_load(file))
    with ctl.client() as client:
        steps = _plan(ctl, client, wanted)
        _show(steps)
        if only_plan or not steps:
            return None
        _ask(ctl, steps, yes=yes, max_credits=max_credits)
        return list(_apply(ctl, client, steps, waits=waits))


def _load(file: IO[str]) -> object:
    """Return the YAML document of a file.

    Raises:
        ValueError: it isn't YAML, or is too long.
    """
    text = file.read(FILE_BYTES_MAX + 1)
    if len(text) > FILE_BYTES_MAX:
        raise ValueError("The file is longer than 10 MB. Split it.")
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"The file isn't YAML: {error}") from error


def _plan(ctl: Ctl, client: Client, wanted: Sequence[Wanted]) -> list[Step]:
    present = {each.fqdn: each for each in client.subdomains.list()}
    steps: list[Step] = []
    for number, each in enumerate(wanted, 1):
        ctl.progress(f"Planning {number}/{len(wanted)} …")
        found = present.get(each.fqdn)
        price = 0 if found is not None else _price(client, each)
        step = step_to(each, found, price)
        if step is not None:
            steps.append(step)
    ctl.progress("")
    return steps


def _price(client: Client, wanted: Wanted) -> int:
    """Return the price of a registration: of the wanted mode, or of the cheapest one, which the registry chooses by default."""
    found = client.subdomains.availability(wanted.fqdn)
    if not found.available:
        sentence = f"{wanted.fqdn} can't be registered: {found.reason}."
        raise Stop(sentence, f"subletctl names availability {wanted.fqdn}")
    prices = [each.price_credits for each in found.modes if wanted.mode in (None, each.mode)]
    return min(prices, default=0)


def _show(steps: Sequence[Step]) -> None:
    for step in steps:
        price = f" for {step.price} credits" if step.price else ""
        click.echo(f"{step.action} {step.wanted.fqdn}{price}", err=True)
        for change in step.changes:
            click.echo(f"    {change}", err=True)
    new = sum(step.action == "register" for step in steps)
    total = sum(step.price for step in steps)
    counts = f"{new} to register for {total} credits, {len(steps) - new} to change."
    click.echo(counts if steps else "Nothing to do: all names are what the file says.", err=True)


def _ask(ctl: Ctl, steps: Sequence[Step], *, yes: bool, max_credits: int | None) -> None:
    price = sum(step.price for step in steps)
    consent = f"the same command with --yes{f' --max-credits {price}' if price else ''}"
    if price and (yes or max_credits is not None) and price > (max_credits or 0):
        raise Stop(f"The plan costs {price} credits, more than --max-credits.", consent, UNPAID)
    ctl.ask("Do it?", consent, yes=yes, exit_code=UNPAID if price else 1)


def _apply(ctl: Ctl, client: Client, steps: Sequence[Step], *, waits: bool) -> Iterator[dict[str, Any]]:
    for number, step in enumerate(steps, 1):
        ctl.progress(f"{number}/{len(steps)} {step.wanted.fqdn} …")
        done, charged_credits = _do(client, step)
        done = waited(ctl, client, done, waits=waits and bool(done.nameservers))
        ctl.progress("")
        yield {
            "fqdn": done.fqdn,
            "status": done.status,
            "action": step.action,
            "charged_credits": charged_credits,
        }


def _do(client: Client, step: Step) -> tuple[Subdomain, int]:
    if step.action == "set":
        return client.subdomains.update_nameservers(step.wanted.fqdn, **step.arguments).subdomain, 0
    try:
        done = client.subdomains.register(
            step.wanted.fqdn,
            registration_mode=step.wanted.mode,  # type: ignore[arg-type] # the service knows the modes
            confirm=True,
            max_credits=step.price,
            **step.arguments,
        )
    except SubdomainUnavailable as error:
        sentence = f"{step.wanted.fqdn} was taken meanwhile. The steps before it are done."
        raise Stop(sentence, "remove it from the file, then subletctl apply again") from error
    return done.subdomain, done.charged_credits
