"""`export` and `apply`: many names in one YAML file."""

from collections.abc import Sequence
from typing import IO, Any

import click
import yaml

from sublet_client import Client
from sublet_client._errors import InsufficientScope, SubdomainNotFound
from sublet_client.cli.advice import NEXT, PARTLY, REFUSED, UNPAID
from sublet_client.cli.names import PRICE_REASONS, WAIT_SECONDS, why_closed
from sublet_client.cli.output import Told
from sublet_client.cli.plan import (
    FREE,
    Step,
    Wanted,
    as_document,
    choose_modes,
    parse_names,
    plan_text,
    price_of,
    step_to,
)
from sublet_client.cli.session import Ctl, Stop, command, stop_of, with_yes
from sublet_client.exceptions import SubletError
from sublet_client.models import Mode

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
    click.echo(yaml.safe_dump(as_document(found), sort_keys=False, allow_unicode=True), nl=False)


@command(
    None,
    "apply",
    uses=(
        "list_subdomains",
        "get_subdomain",
        "availability",
        "free_subdomains",
        "credits",
        "me",
        "register",
        "update_nameservers",
    ),
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
) -> Told | list[dict[str, Any]]:
    """Make names what a YAML file says: show the plan, ask, and do it.

    Names that the file doesn't have stay as they are, and so do members that it leaves out. If a step fails, those before it stay done, and a second
    run does the rest.
    """
    wanted = parse_names(_load(file))
    with ctl.client() as client:
        steps = _plan(ctl, client, wanted)
        balance = _balance(client) if price_of(steps) else None
        plan = Told(plan_text(steps, balance), [_as_row(step) for step in steps])
        if only_plan or not steps:
            return plan
        click.echo(plan.text, err=True)
        _ask(ctl, client, steps, balance, yes=yes, max_credits=max_credits)
        return _apply(ctl, client, steps, waits=waits)


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
    new = [each for each in wanted if each.fqdn not in present]
    offers = _offers(ctl, client, new)
    steps = [step_to(each, present.get(each.fqdn), offers.get(each.fqdn)) for each in wanted]
    return [each for each in steps if each is not None]


def _offers(ctl: Ctl, client: Client, new: Sequence[Wanted]) -> dict[str, Mode]:
    """Return the mode in which each new name will be registered, by name.

    Raises:
        Stop: a name isn't free, or no mode is left for it.
    """
    asked: list[tuple[str | None, Sequence[Mode]]] = []
    for number, each in enumerate(new, 1):
        ctl.progress(f"Planning {number}/{len(new)} …")
        asked.append((each.mode, _modes(client, each.fqdn)))
    ctl.progress("")
    free = sum(any(mode.mode == FREE for mode in modes) for _, modes in asked)
    chosen = choose_modes(asked, _free_left(client) if free > 1 else None)
    for each, (_, modes), offer in zip(new, asked, chosen, strict=True):
        if offer is None:
            why = "your free names are used up" if each.mode in (None, FREE) else f"{each.mode} isn't offered"
            others = ", ".join(mode.mode for mode in modes if mode.mode != FREE)
            advice = (
                f"give it `mode: {others}`, or remove it from the file"
                if others
                else "remove it from the file"
            )
            raise Stop(f"{each.fqdn} can't be registered: {why}.", advice)
    return {each.fqdn: offer for each, offer in zip(new, chosen, strict=True) if offer is not None}


def _modes(client: Client, fqdn: str) -> Sequence[Mode]:
    found = client.subdomains.availability(fqdn)
    if found.available or found.reason in PRICE_REASONS:
        return found.modes
    if found.available_at is not None:  # it was of this account: in the trash perhaps
        try:
            client.subdomains.get(fqdn)
        except SubdomainNotFound as error:
            if error.details.get("in_trash"):
                raise stop_of(error, fqdn) from error
    raise Stop(f"{fqdn} can't be registered: {why_closed(client, found)}.", "remove it from the file")


def _free_left(client: Client) -> int | None:
    try:
        return client.account.free_subdomains().remaining
    except InsufficientScope:
        click.echo(
            "This token may not see the free quota (account:read): a name may cost more, and fail.", err=True
        )
        return None


def _balance(client: Client) -> int | None:
    try:
        return client.credits.get().credit_balance
    except InsufficientScope:
        return None


def _may_spend(client: Client) -> bool:
    token = client.account.me().token
    return token is None or "credits:spend" in token.scopes


def _as_row(step: Step) -> dict[str, Any]:
    return {
        "fqdn": step.wanted.fqdn,
        "action": step.action,
        "mode": step.mode,
        "price_credits": step.price,
        "changes": step.changes,
    }


def _ask(
    ctl: Ctl,
    client: Client,
    steps: Sequence[Step],
    balance: int | None,
    *,
    yes: bool,
    max_credits: int | None,
) -> None:
    price = price_of(steps)
    if balance is not None and price > balance:
        sentence = f"The plan costs {price} credits, {price - balance} more than you have."
        raise Stop(sentence, "subletctl credits packages", UNPAID)
    if price and not _may_spend(client):
        raise Stop(
            f"The plan costs {price} credits, and this token may not spend any.", NEXT["insufficient_scope"]
        )
    consent = f"the same command with --yes{f' --max-credits {price}' if price else ''}"
    if price and (yes or max_credits is not None) and price > (max_credits or 0):
        raise Stop(f"The plan costs {price} credits, more than --max-credits.", consent, UNPAID)
    ctl.ask("Do it?", consent, yes=yes, exit_code=UNPAID if price else REFUSED)


def _apply(ctl: Ctl, client: Client, steps: Sequence[Step], *, waits: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    try:
        for number, step in enumerate(steps, 1):
            ctl.progress(f"{number}/{len(steps)} {step.wanted.fqdn} …")
            rows.append(_do(client, step))
    except SubletError as error:
        stop = stop_of(error)
        begin = f"{len(rows)} of {len(steps)} done; " if rows else ""
        sentence = f"{begin}{steps[len(rows)].wanted.fqdn} failed: {stop.message}"
        raise Stop(
            sentence, stop.next_command, PARTLY if rows else stop.exit_code, result=rows or None
        ) from error
    try:
        for row in rows if waits else ():
            ctl.progress(f"{row['fqdn']} is being published …")
            row["status"] = client.subdomains.wait(row["fqdn"], deadline_seconds=WAIT_SECONDS).status
    except SubletError as error:
        stop = stop_of(error)
        raise Stop(stop.message, stop.next_command, stop.exit_code, result=rows) from error
    return rows


def _do(client: Client, step: Step) -> dict[str, Any]:
    charged_credits = 0
    if step.action == "set":
        done = client.subdomains.update_nameservers(step.wanted.fqdn, **step.arguments).subdomain
    else:
        registered = client.subdomains.register(
            step.wanted.fqdn,
            registration_mode=step.wanted.mode,  # type: ignore[arg-type] # the service knows the modes
            confirm=True,
            max_credits=step.price,
            **step.arguments,
        )
        done, charged_credits = registered.subdomain, registered.charged_credits
    return {
        "fqdn": done.fqdn,
        "status": done.status,
        "action": step.action,
        "charged_credits": charged_credits,
    }
