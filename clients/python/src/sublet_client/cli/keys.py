"""`keys`: the keys with which programs change the records of a name by DNS UPDATE."""

from datetime import UTC, datetime, timedelta
from typing import Any

import click
from msgspec.structs import asdict

from sublet_client._errors import TokenNotFound
from sublet_client.cli.session import Ctl, Stop, command, group, with_yes
from sublet_client.models import UpdateKey

COLUMNS = ("id", "name", "key_name", "record_names", "expires_at", "last_used_at")
SECRET = ("secret", "server", "key_name", "algorithm", "id", "name", "record_names", "expires_at")
CHALLENGES = ("_acme-challenge", "_acme-challenge.*")


@group()
def keys() -> None:
    """Create and remove keys for certbot and other programs that speak DNS UPDATE."""


@command(keys, "list", uses=("list_update_keys",), columns=COLUMNS)
@click.argument("name")
def list_(ctl: Ctl, name: str) -> tuple[UpdateKey, ...]:
    """List the keys of a name."""
    with ctl.client() as client:
        return client.update_keys.list(name)


@command(keys, "create", uses=("create_update_key",), columns=SECRET)
@click.argument("name")
@click.option("--for", "label", metavar="TEXT", help="What the key is for, as the list shows it.")
@click.option(
    "--only-record",
    "record_names",
    multiple=True,
    default=CHALLENGES,
    metavar="OWNER",
    help="For the records at this owner only; by default the challenges of certificates.",
)
@click.option("--all-records", is_flag=True, help="For all records of the name.")
@click.option(
    "--expires-in-days", "days", type=click.IntRange(min=1, max=365), metavar="N", help="By default a year."
)
def create(
    ctl: Ctl,
    name: str,
    label: str | None,
    record_names: tuple[str, ...],
    all_records: bool,
    days: int | None,
) -> dict[str, Any]:
    """Create a key of a name. Its secret is shown once; --quiet prints it alone."""
    until = None if days is None else datetime.now(UTC) + timedelta(days=days)
    owners = None if all_records else record_names
    with ctl.client() as client:
        done = client.update_keys.create(name, name=label, expires_at=until, record_names=owners)
    return {**asdict(done.update_key), "secret": done.secret, "server": done.server}


@command(keys, "remove", uses=("revoke_update_key",), columns=COLUMNS)
@click.argument("name")
@click.argument("key_id", metavar="ID", type=int)
@with_yes
def remove(ctl: Ctl, name: str, key_id: int, yes: bool) -> UpdateKey:
    """Revoke a key of a name for good."""
    ctl.ask(f"Revoke the key {key_id} of {name} for good?", "the same command with --yes", yes=yes)
    with ctl.client() as client:
        try:
            return client.update_keys.revoke(name, key_id)
        except TokenNotFound:
            sentence = f"{name} has no key {key_id}, or the key may do more than your token."
            raise Stop(sentence, f"subletctl keys list {name}") from None
