"""`export` and `apply`: many names in one YAML file."""

from collections.abc import Sequence
from typing import IO, Any

import click
import yaml

from sublet_client import Client
from sublet_client._errors import InsufficientScope, SubdomainNotFound
from sublet_client.cli.names import PRICE_REASONS, WAIT_SECONDS, why_closed
from sublet_client.cli.names_file import read_names
from sublet_client.cli.output import Told
from sublet_client.cli.plan import (
    FREE,
    Step,
    StoredRecords,
    Wanted,
    as_document,
    choose_modes,
    plan_text,
    price_of,
    step_to,
)
from sublet_client.cli.session import Ctl, Stop, command, stop_of, with_yes
from sublet_client.cli.several import act_on_all, consent, find_balance, spell
from sublet_client.exceptions import ApiError, SubletError
from sublet_client.models import Mode, Subdomain


@command(None, "export", uses=("list_subdomains", "get_records"))
@click.argument("names", nargs=-1)
@click.option("--domain", help="Only names under this platform domain.")
def export(ctl: Ctl, names: tuple[str, ...], domain: str | None) -> None:
    """Write NAMES, or all your names, as YAML to standard output, for `subletctl apply`."""
    wanted = {spell(each): each for each in names}
    with ctl.client() as client:
        found = [
            each
            for each in client.subdomains.list(domain=domain)
            if not wanted or wanted.keys() & {each.fqdn, str(each.id)}
        ]
        for missing in wanted.keys() - {text for each in found for text in (each.fqdn, str(each.id))}:
            raise Stop(f"You have no name {wanted[missing]}.", "subletctl names list")
        # Other names have none: an inactive one has neither nameservers nor records.
        perhaps = [each.fqdn for each in found if not each.nameservers and each.status != "inactive"]
        records = {fqdn: client.records.get(fqdn).records for fqdn in perhaps}
    document = as_document(found, records)
    click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)


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
        "get_records",
        "replace_records",
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

    Names that the file doesn't have stay as they are, and so do members that it leaves out. If a step fails,
    those before it stay done, and a second run does the rest.
    """
    wanted = read_names(file)
    with ctl.client() as client:
        steps = _plan(ctl, client, wanted)
        balance = find_balance(client) if price_of(steps) else None
        plan = Told(plan_text(steps, balance), [_as_row(step) for step in steps])
        if only_plan or not steps:
            return plan
        click.echo(plan.text, err=True)
        consent(ctl, client, price_of(steps), balance, yes=yes, max_credits=max_credits)
        return _apply(ctl, client, steps, waits=waits)


def _plan(ctl: Ctl, client: Client, wanted: Sequence[Wanted]) -> list[Step]:
    present = {each.fqdn: each for each in client.subdomains.list()}
    new = [each for each in wanted if each.fqdn not in present]
    offers = _offers(ctl, client, new)
    steps = [
        step_to(
            each,
            present.get(each.fqdn),
            offers.get(each.fqdn),
            stored_records(client, each, present.get(each.fqdn)),
        )
        for each in wanted
    ]
    return [each for each in steps if each is not None]


def stored_records(client: Client, wanted: Wanted, present: Subdomain | None) -> StoredRecords:
    """Return the records of a name, if it may have some and the change is about records or nameservers.

    Raises:
        Stop: the name would have nameservers and records.
    """
    if present is None or not (wanted.records is not None or wanted.nameservers):
        return StoredRecords()
    if wanted.records and wanted.nameservers is None and present.nameservers:
        raise _refuse_both(present, "nameservers", "records")
    if wanted.records is None and (present.nameservers or present.status == "inactive"):
        return StoredRecords()  # so it has no records
    seen = client.records.get_tagged(wanted.fqdn)
    if wanted.records is None and seen.value.records:
        raise _refuse_both(present, "records", "nameservers")
    return StoredRecords(seen.value.records, seen.etag)


def _refuse_both(present: Subdomain, has: str, wanted: str) -> Stop:
    message = f"{present.fqdn} has {has}, so it can't have {wanted}."
    return Stop(message, f"remove its {has}, such as by `{has}: []` in the file of `subletctl apply`")


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
            "The token lacks the scope account:read, so the plan doesn't know how many free names you have "
            "left. A name that would cost more than planned is refused.",
            err=True,
        )
        return None


def _as_row(step: Step) -> dict[str, Any]:
    return {
        "fqdn": step.wanted.fqdn,
        "action": step.action,
        "mode": step.mode,
        "price_credits": step.price,
        "changes": step.changes,
    }


def _apply(ctl: Ctl, client: Client, steps: Sequence[Step], *, waits: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = act_on_all(
        ctl, steps, lambda step: step.wanted.fqdn, lambda step: _do(client, step)
    )
    for row in rows if waits else ():
        ctl.progress(f"{row['fqdn']} is being published …")
        try:
            row["status"] = client.subdomains.wait(row["fqdn"], deadline_seconds=WAIT_SECONDS).status
        except SubletError as error:
            stop = stop_of(error, row["fqdn"])
            raise Stop(stop.message, stop.next_command, stop.exit_code, result=rows) from error
    return rows


def _do(client: Client, step: Step) -> dict[str, Any]:
    charged_credits = 0
    if step.action == "set":
        done = _change(client, step)
    else:
        registered = client.subdomains.register(
            step.wanted.fqdn,
            registration_mode=step.wanted.mode,  # type: ignore[arg-type] # the service knows the modes
            confirm=True,
            max_credits=step.price,
            records=step.records,
            **step.arguments,
        )
        done, charged_credits = registered.subdomain, registered.charged_credits
    return {
        "fqdn": done.fqdn,
        "status": done.status,
        "action": step.action,
        "charged_credits": charged_credits,
    }


def _change(client: Client, step: Step) -> Subdomain:
    """Change the delegation and the records of a name.

    It can't have both, so those that go are removed first. If the service then refuses the others, what was
    removed is put back.
    """
    fqdn = step.wanted.fqdn
    if step.records is None:
        return client.subdomains.update_nameservers(fqdn, **step.arguments).subdomain
    if not step.arguments:
        client.records.replace(fqdn, step.records, if_match=step.records_etag)
    elif step.wanted.nameservers:
        former_records = client.records.get(fqdn).records
        client.records.replace(fqdn, step.records, if_match=step.records_etag)
        try:
            client.subdomains.update_nameservers(fqdn, **step.arguments)
        except ApiError:
            client.records.replace(fqdn, former_records)
            raise
    else:
        former = client.subdomains.get(fqdn)
        client.subdomains.update_nameservers(fqdn, **step.arguments)
        try:
            client.records.replace(fqdn, step.records, if_match=step.records_etag)
        except ApiError:
            client.subdomains.update_nameservers(
                fqdn, nameservers=former.nameservers, glue=former.glue, ds_records=former.ds_records
            )
            raise
    return client.subdomains.get(fqdn)
