"""`set`, `ds`, `health`: the delegation of a name."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import click

from sublet_client.cli.names import waited
from sublet_client.cli.plan import glue_entry
from sublet_client.cli.session import Ctl, Function, Stop, command, group, with_yes
from sublet_client.models import AutomaticDs, Ds, Finding, GlueEntry, Subdomain

DELEGATION = ("fqdn", "status", "nameservers", "glue", "ds_records")
FINDINGS = ("level", "code", "subject", "message", "hint")
RECORDS = ("key_tag", "algorithm", "digest_type", "digest")

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
        raise click.UsageError("Put each DS record in one pair of quotes: '2371 13 2 1F98…'.", ctx)
    del param
    return records


def with_wait(function: Function) -> Function:
    """Add the option of commands that change the DNS."""
    return click.option("--wait", "waits", is_flag=True, help="Wait until the change is in the DNS.")(
        function
    )


@command(None, "set", uses=("update_nameservers", "get_subdomain"), columns=DELEGATION)
@click.argument("name")
@click.option(
    "--nameserver", "-n", "nameservers", multiple=True, metavar="HOST", help="A nameserver; repeat it."
)
@click.option(
    "--glue", multiple=True, metavar="HOST=ADDRESS", help="An address of a nameserver below the name."
)
@click.option("--no-nameservers", is_flag=True, help="Remove all: the name leaves the DNS.")
@click.option("--no-glue", is_flag=True, help="Remove all glue.")
@with_wait
def set_(
    ctl: Ctl,
    name: str,
    nameservers: tuple[str, ...],
    glue: tuple[str, ...],
    no_nameservers: bool,
    no_glue: bool,
    waits: bool,
) -> Subdomain:
    """Set the nameservers of a name, and their glue. What isn't given stays; see `subletctl ds` for DS records."""
    if not (nameservers or glue or no_nameservers or no_glue):
        raise click.UsageError("Nothing to set. Give --nameserver, --glue, --no-nameservers or --no-glue.")
    entries = parse_glue(glue)
    with ctl.client() as client:
        done = client.subdomains.update_nameservers(
            name,
            nameservers=nameservers or ([] if no_nameservers else None),
            glue=entries or ([] if no_glue or no_nameservers else None),
            ds_records=[] if no_nameservers else None,
        )
        return waited(ctl, client, done.subdomain, waits=waits)


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
@click.argument("name")
@click.argument("records", nargs=-1, callback=quoted)
@with_wait
def set_ds(ctl: Ctl, name: str, records: tuple[str, ...], waits: bool) -> tuple[Ds, ...]:
    """Make RECORDS the DS records of a name. Each is one argument, such as '2371 13 2 1F98…'; none removes all."""
    return _change(ctl, name, lambda _: list(records), waits=waits)


@command(ds, "add", uses=("update_nameservers", "get_subdomain"), columns=RECORDS)
@click.argument("name")
@click.argument("records", nargs=-1, required=True, callback=quoted)
@with_wait
def add(ctl: Ctl, name: str, records: tuple[str, ...], waits: bool) -> tuple[Ds, ...]:
    """Add DS records: the first step of a rollover. Wait for an hour before you sign with the new key alone."""

    def with_records(seen: Subdomain) -> list[str]:
        present = list(map(str, seen.ds_records))
        return [*present, *(each for each in records if each not in present)]

    return _change(ctl, name, with_records, waits=waits)


@command(ds, "remove", uses=("update_nameservers", "get_subdomain"), columns=RECORDS)
@click.argument("name")
@click.argument("key_tags", nargs=-1, required=True, type=int)
@with_wait
@with_yes
def remove(ctl: Ctl, name: str, key_tags: tuple[int, ...], waits: bool, yes: bool) -> tuple[Ds, ...]:
    """Remove the DS records with these key tags: the last step of a rollover. It warns less than an hour after a change."""

    def without(seen: Subdomain) -> list[str]:
        kept = [str(each) for each in seen.ds_records if each.key_tag not in key_tags]
        if len(kept) == len(seen.ds_records):
            raise Stop(f"{name} has no DS record with such a key tag.", f"subletctl ds list {name}")
        cached_until = seen.updated_at + CACHED
        if kept and datetime.now(UTC) < cached_until:
            click.echo(
                f"{seen.fqdn} changed at {seen.updated_at:%H:%M} UTC. If its DS records did, resolvers have the former ones until "
                f"{cached_until:%H:%M} UTC, with the usual TTL of an hour. Better remove no record before.",
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
    columns=("policy", "enabled", "bootstrap", "ds_records", "refusal"),
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
        click.echo(f"{found.fqdn} is {found.state}; checked: {checked_at}.", err=True)
        return found.findings
