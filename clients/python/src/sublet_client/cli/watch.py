"""`watch`: changes of names when they happen."""

import time
from collections.abc import Iterator, Sequence

import click

from sublet_client import Client, SubdomainNotFound
from sublet_client._waiting import UNSETTLED
from sublet_client.cli.advice import REFUSED
from sublet_client.cli.session import SECONDS_MAX, Ctl, Seconds, Stop, command, stop_of
from sublet_client.models import Subdomain


@command(None, "watch", uses=("list_subdomains", "get_subdomain"))
@click.argument("names", nargs=-1)
@click.option(
    "--interval",
    type=Seconds(min=1, max=SECONDS_MAX),
    default=5.0,
    metavar="SECONDS",
    help="How often to look.",
)
@click.option(
    "--settled", is_flag=True, help="End when no name is being published. A failed one is exit code 1."
)
def watch(ctl: Ctl, names: tuple[str, ...], interval: float, settled: bool) -> None:
    """Show changes of NAMES, or of all your names, when they happen."""
    seen: dict[str, str] = {}
    with ctl.client() as client:
        while True:
            found = list(_find(client, names, may_be_gone=bool(seen)))
            for each in found:
                line = f"{each.fqdn}  {each.status}  {', '.join(each.nameservers) or '-'}"
                if seen.get(each.fqdn) != line:
                    click.echo(line)
                    seen[each.fqdn] = line
            for gone in seen.keys() - {each.fqdn for each in found}:
                click.echo(f"{gone}  gone")
                del seen[gone]
            if names and not found:
                raise Stop("No name is left to watch.", "subletctl names list", REFUSED)
            if settled and not any(each.status in UNSETTLED for each in found):
                _refuse_failed(found)
                return
            time.sleep(interval)


def _find(client: Client, names: Sequence[str], *, may_be_gone: bool) -> Iterator[Subdomain]:
    if not names:
        yield from client.subdomains.list()
    for each in names:
        try:
            yield client.subdomains.get(each)
        except SubdomainNotFound as error:
            if not may_be_gone:
                raise stop_of(error, each) from error


def _refuse_failed(found: Sequence[Subdomain]) -> None:
    failed = [each for each in found if each.status == "failed"]
    if failed:
        sentence = f"{failed[0].fqdn} failed: {failed[0].provision_error}"
        raise Stop(sentence, f"subletctl names retry {failed[0].fqdn}", REFUSED)
