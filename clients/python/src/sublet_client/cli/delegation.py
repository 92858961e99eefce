"""`ns`, `ds`, `health`: the delegation of a name."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import IO, Any

import click
from msgspec.structs import asdict

from sublet_client import Client
from sublet_client.cli.many import stored_records
from sublet_client.cli.names import waited
from sublet_client.cli.output import Told
from sublet_client.cli.plan import Step, Wanted, step_to, stored
from sublet_client.cli.session import Ctl, Function, Stop, command, group, with_yes
from sublet_client.cli.several import Item, do_all, find_all, names_of, with_file, with_names
from sublet_client.models import AutomaticDs, Ds, Finding, GlueEntry, Subdomain
from sublet_client.spelling import glue_entry, parse_ds, parse_host

DELEGATION = ("fqdn", "status", "nameservers", "glue", "ds_records")
FINDINGS = ("level", "code", "subject", "message", "hint")
RECORDS = ("key_tag", "algorithm", "digest_type", "digest")

SPLIT_RECORD = "Put each DS record in one pair of quotes: '2371 13 2 1F98…'."
CHECKS_OFF = "This registry doesn't check delegations: its operator has turned checks off."
CACHED = timedelta(hours=1)
"""The TTL of DS and NS records that a platform domain has by default."""


def parse_glue(texts: Iterable[str]) -> list[GlueEntry]:
    """Return glue of HOST=ADDRESS.

    Raises:
        ValueError: a text isn't of this form.
    """
    found: list[GlueEntry] = []
    for text in texts:
        host, equals, address = text.partition("=")
        if not equals:
            raise ValueError(f"{text} is no glue. Give HOST=ADDRESS, such as ns1.blog.example.net=192.0.2.1.")
        found.append(glue_entry(host, address))
    return found


def quoted(ctx: click.Context, param: click.Parameter, records: tuple[str, ...]) -> tuple[str, ...]:
    """Return DS records, each one argument.

    Raises:
        UsageError: the shell has split a record at its spaces.
    """
    if any(len(each.split()) == 1 for each in records):
        raise click.UsageError(SPLIT_RECORD, ctx)
    del param
    return records


def with_names_and_records(function: Function) -> Function:
    """Add the argument and the option of a command that takes several names, and DS records.

    What has a space is a record.

    Raises:
        UsageError: there is no name, or the shell has split a record at its spaces.
    """

    @wraps(function)
    def run(ctl: Ctl, *, words: tuple[str, ...], from_file: IO[str] | None, **given: Any) -> Any:
        records = [each for each in words if len(each.split()) > 1]
        names = names_of((each for each in words if len(each.split()) == 1), from_file)
        if len(names) > 1 and not all("." in each for each in names):
            raise click.UsageError(SPLIT_RECORD)
        return function(ctl, names=names, records=records, **given)

    return click.argument("words", nargs=-1, metavar="NAME... [RECORD]...")(with_file(run))


def with_wait(function: Function) -> Function:
    """Add the option of commands that change the DNS."""
    return click.option("--wait", "waits", is_flag=True, help="Wait until the change is in the DNS.")(
        function
    )


@group()
def ns() -> None:
    """Show and set nameservers."""


@command(ns, "list", uses=("get_subdomain",), columns=("nameserver", "addresses"))
@click.argument("name")
def list_nameservers(ctl: Ctl, name: str) -> list[dict[str, Any]]:
    """List the nameservers of a name, with their glue."""
    with ctl.client() as client:
        found = stored(client.subdomains.get(name))
    return [
        {
            "nameserver": each,
            "addresses": [address for host, address in found.glue or () if host == each],
        }
        for each in found.nameservers or ()
    ]


@command(None, "set", uses=("update_nameservers", "get_subdomain", "get_records"), columns=DELEGATION)
@with_names
@click.option(
    "--nameserver", "-n", "nameservers", multiple=True, metavar="HOST", help="A nameserver; repeat it."
)
@click.option(
    "--glue", multiple=True, metavar="HOST=ADDRESS", help="An address of a nameserver below the name."
)
@click.option("--no-nameservers", is_flag=True, help="Remove all: the name leaves the DNS.")
@click.option("--no-glue", is_flag=True, help="Remove all glue.")
@with_wait
@with_yes
def set_(ctl: Ctl, names: Sequence[str], **given: Any) -> Subdomain | list[Subdomain]:
    """Set the nameservers of names, and their glue.

    What isn't given stays; see `subletctl ds` for DS records.

    Of several names it first shows what changes, and asks once. `subletctl ns set` and `subletctl set` are
    the same.
    """
    nameservers, no_nameservers = given["nameservers"], given["no_nameservers"]
    if not (nameservers or given["glue"] or no_nameservers or given["no_glue"]):
        raise click.UsageError("Nothing to set. Give --nameserver, --glue, --no-nameservers or --no-glue.")
    entries = parse_glue(given["glue"])
    if entries and len(names) > 1:
        raise click.UsageError("Glue is for one name. Leave --glue out, or give one name.")
    wanted: dict[str, Any] = {
        "nameservers": nameservers or ([] if no_nameservers else None),
        "glue": entries or ([] if given["no_glue"] or no_nameservers else None),
        "ds_records": [] if no_nameservers else None,
    }
    with ctl.client() as client:
        if len(names) == 1:
            done = client.subdomains.update_nameservers(names[0], **wanted)
            return waited(ctl, client, done.subdomain, waits=given["waits"])
        hosts = None if wanted["nameservers"] is None else tuple(map(parse_host, wanted["nameservers"]))
        glue, records = (None if wanted[each] is None else () for each in ("glue", "ds_records"))
        return _set_several(
            ctl,
            client,
            names,
            lambda fqdn: Wanted(fqdn, hosts, glue, records),
            yes=given["yes"],
            waits=given["waits"],
        )


ns.add_command(set_)


def _set_several(
    ctl: Ctl, client: Client, names: Sequence[str], want: Callable[[str], Wanted], *, yes: bool, waits: bool
) -> list[Subdomain]:
    """Show what changes at each name, ask, change those that differ, and return all
    names as they are then.
    """

    def find(name: str) -> Item[tuple[Subdomain, Step | None]]:
        found = client.subdomains.get(name)
        wanted = want(found.fqdn)
        stored_records(client, wanted, found)
        step = step_to(wanted, found)
        changes = "\n    ".join(step.changes) if step else "nothing to do"
        return Item(found.fqdn, f"{found.fqdn}\n    {changes}", (found, step))

    def act(item: Item[tuple[Subdomain, Step | None]]) -> Subdomain:
        found, step = item.about
        if step is None:
            return found
        done = client.subdomains.update_nameservers(item.fqdn, **step.arguments)
        return waited(ctl, client, done.subdomain, waits=waits)

    items = find_all(ctl, names, find)
    if all(step is None for _, step in (each.about for each in items)):
        click.echo("Nothing to do: all names are so already.", err=True)
        return [found for found, _ in (each.about for each in items)]
    return do_all(ctl, client, items, act, question="Do it?", yes=yes)


@group()
def ds() -> None:
    """Show and change DS records."""


@command(ds, "list", uses=("get_subdomain",), columns=RECORDS)
@click.argument("name")
def list_(ctl: Ctl, name: str) -> tuple[Ds, ...]:
    """List the DS records of a name."""
    with ctl.client() as client:
        return client.subdomains.get(name).ds_records


@command(ds, "set", uses=("update_nameservers", "get_subdomain"), columns=RECORDS)
@with_names_and_records
@with_wait
@with_yes
def set_ds(
    ctl: Ctl, names: Sequence[str], records: Sequence[str], waits: bool, yes: bool
) -> tuple[Ds, ...] | Told:
    """Make RECORDS the DS records of names.

    Each is one argument, such as '2371 13 2 1F98…' or a DNSKEY; none removes all.

    Of several names it first shows what changes, and asks once.
    """
    if len(names) == 1:
        return _change(ctl, names[0], lambda _: list(records), waits=waits)
    with ctl.client() as client:
        done = _set_several(
            ctl,
            client,
            names,
            lambda fqdn: Wanted(
                fqdn, ds_records=tuple(dict.fromkeys(parse_ds(each, fqdn) for each in records))
            ),
            yes=yes,
            waits=waits,
        )
    lines = [f"{each.fqdn}  {', '.join(map(str, each.ds_records)) or '-'}" for each in done]
    rows = [{**asdict(record), "fqdn": each.fqdn} for each in done for record in each.ds_records]
    return Told("\n".join(lines), rows)


@command(ds, "add", uses=("update_nameservers", "get_subdomain"), columns=RECORDS)
@click.argument("name")
@click.argument("records", nargs=-1, required=True, callback=quoted)
@with_wait
def add(ctl: Ctl, name: str, records: tuple[str, ...], waits: bool) -> tuple[Ds, ...]:
    """Add DS records: the first step of a rollover.

    Wait for an hour before you sign with the new key alone.
    """

    def with_records(seen: Subdomain) -> list[str]:
        present = list(map(str, seen.ds_records))
        return list(dict.fromkeys([*present, *(parse_ds(each, seen.fqdn) for each in records)]))

    return _change(ctl, name, with_records, waits=waits)


@command(ds, "remove", uses=("update_nameservers", "get_subdomain"), columns=RECORDS)
@click.argument("name")
@click.argument("key_tags", nargs=-1, required=True, type=int)
@with_wait
@with_yes
def remove(ctl: Ctl, name: str, key_tags: tuple[int, ...], waits: bool, yes: bool) -> tuple[Ds, ...]:
    """Remove the DS records with these key tags: the last step of a rollover.

    It warns less than an hour after a change.
    """

    def without(seen: Subdomain) -> list[str]:
        kept = [str(each) for each in seen.ds_records if each.key_tag not in key_tags]
        if len(kept) == len(seen.ds_records):
            raise Stop(f"{name} has no DS record with such a key tag.", f"subletctl ds list {name}")
        cached_until = seen.updated_at + CACHED
        if kept and datetime.now(UTC) < cached_until:
            click.echo(
                f"{seen.fqdn} changed at {seen.updated_at:%H:%M} UTC. If its DS records did, resolvers have "
                f"the former ones until {cached_until:%H:%M} UTC, with the usual TTL of an hour. Wait until "
                "then.",
                err=True,
            )
            if ctl.is_interactive:
                ctl.ask("Remove it now?", "the same command later", yes=yes)
        return kept

    return _change(ctl, name, without, waits=waits)


def _change(ctl: Ctl, name: str, change: Callable[[Subdomain], list[str]], *, waits: bool) -> tuple[Ds, ...]:
    """Change the DS records of a name as it was read: a change in between is refused."""
    with ctl.client() as client:
        seen = client.subdomains.get_tagged(name)
        done = client.subdomains.update_nameservers(name, ds_records=change(seen.value), if_match=seen.etag)
        return waited(ctl, client, done.subdomain, waits=waits).ds_records


@command(
    ds,
    "auto",
    uses=("get_automatic_ds", "set_automatic_ds"),
    columns=("policy", "enabled", "bootstrap", "ds_records", "refusal", "wait"),
)
@click.argument("name")
@click.argument("state", type=click.Choice(["on", "off"]), required=False)
@click.option(
    "--bootstrap/--no-bootstrap", default=None, help="Whether the first DS records come from the zone too."
)
def auto(ctl: Ctl, name: str, state: str | None, bootstrap: bool | None) -> AutomaticDs:
    """Show whether the DS records of a name follow its zone, or turn that on or off."""
    with ctl.client() as client:
        if state is None and bootstrap is None:
            return client.subdomains.get_automatic_ds(name)
        enabled = None if state is None else state == "on"
        return client.subdomains.set_automatic_ds(name, enabled=enabled, bootstrap=bootstrap)


@command(None, "health", uses=("get_health", "check_health", "check_delegation"), columns=FINDINGS)
@click.argument("name")
@click.option("--now", is_flag=True, help="Look now, instead of showing the last check.")
@click.option(
    "--plan", is_flag=True, help="Check a delegation before it is set: with --nameserver, --glue and --ds."
)
@click.option(
    "--nameserver", "-n", "nameservers", multiple=True, metavar="HOST", help="A planned nameserver."
)
@click.option("--glue", multiple=True, metavar="HOST=ADDRESS", help="Planned glue.")
@click.option("--ds", "ds_records", multiple=True, callback=quoted, metavar="DS", help="A planned DS record.")
def health(
    ctl: Ctl,
    name: str,
    now: bool,
    plan: bool,
    nameservers: tuple[str, ...],
    glue: tuple[str, ...],
    ds_records: tuple[str, ...],
) -> tuple[Finding, ...]:
    """Show what is wrong with a delegation."""
    with ctl.client() as client:
        if plan:
            checked = client.subdomains.check_delegation(
                name,
                nameservers=nameservers or None,
                glue=parse_glue(glue) or None,
                ds_records=ds_records or None,
            )
            click.echo(f"{checked.fqdn} would be {checked.state}.", err=True)
            return checked.findings
        found = client.subdomains.check_health(name) if now else client.subdomains.get_health(name)
        checked_at = f"{found.checked_at:%Y-%m-%d %H:%M} UTC" if found.checked_at else "never"
        off = "" if found.checks_enabled else f" {CHECKS_OFF}"
        click.echo(f"{found.fqdn} is {found.state}; checked: {checked_at}.{off}", err=True)
        return found.findings
