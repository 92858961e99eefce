"""`sublet subdomain …`: the registered names of all users."""

from datetime import datetime
from typing import Annotated, Any

from typer import Option

from sublet.accounts.find import find_user
from sublet.accounts.store import list_users
from sublet.cli.options import Limit, OnlyDomain, OnlyUser, ReasonForUser, SubdomainName
from sublet.cli.output import Answer, facts, members, table_of
from sublet.cli.session import Session, change, new_app, question
from sublet.db import Tx
from sublet.errors import check_one_of, validation_failed
from sublet.platform_domains.find import find_platform_domain
from sublet.subdomains.find import find_for_operator
from sublet.subdomains.lifecycle import auto_renew_at, derive_status, provisioning_status, restorable_until
from sublet.subdomains.model import STATUSES, Subdomain, SubdomainFilter
from sublet.subdomains.purge import purge as purge_verb
from sublet.subdomains.restore import operator_restore
from sublet.subdomains.store import list_all
from sublet.subdomains.suspend import suspend as suspend_verb
from sublet.subdomains.suspend import unsuspend as unsuspend_verb

app = new_app("List, show, suspend, restore and purge registered names.")


_STORED = (
    "id", "fqdn", "domain", "registration_type", "registration_source", "provision_error", "generation",
    "published_generation", "registered_at", "expires_at", "auto_renew_max_credits", "auto_renew_tried_at",
    "suspended_at", "suspended_reason", "trashed_at", "purged_at", "released_at",
)  # fmt: skip


def _describe(subdomain: Subdomain, emails: dict[int, str], now: datetime) -> dict[str, Any]:
    return {
        **members(subdomain, _STORED),
        **members(subdomain.delegation, ("nameservers", "glue", "ds_records")),
        "email": emails.get(subdomain.user_id),
        "status": derive_status(subdomain, now),
        "provisioning_status": provisioning_status(subdomain),
        "auto_renew_at": auto_renew_at(subdomain),
        "restorable_until": restorable_until(subdomain),
    }


def _describe_one(tx: Tx, subdomain: Subdomain) -> dict[str, Any]:
    return _describe(subdomain, {each.id: each.email for each in list_users(tx)}, tx.now)


def _answer(session: Session, subdomain: Subdomain, line: str) -> Answer:
    return Answer(session.read(_describe_one, subdomain), (line,))


@question(app, "list")
def list_subdomains(
    session: Session,
    user: OnlyUser = None,
    domain: OnlyDomain = None,
    status: Annotated[str | None, Option(metavar="STATUS", help=f"One of {', '.join(STATUSES)}.")] = None,
    containing: Annotated[
        str | None, Option(metavar="TEXT", help="Part of the name, as ASCII or Unicode.")
    ] = None,
    limit: Limit = 100,
) -> Answer:
    """List registered names, newest first; those in the trash with --status trashed."""
    if errors := check_one_of("status", status, STATUSES):
        raise validation_failed(errors)

    def ask(tx: Tx) -> list[dict[str, Any]]:
        wanted = SubdomainFilter(
            status=status, domain=find_platform_domain(tx, domain).domain if domain else None, q=containing
        )
        user_id = find_user(tx, user).id if user else None
        emails = {each.id: each.email for each in list_users(tx)}
        return [_describe(each, emails, tx.now) for each in list_all(tx, wanted, limit, user_id=user_id)]

    found = session.read(ask)
    columns = (
        "id", ("name", "fqdn"), ("user", "email"), "status", ("mode", "registration_type"), "expires_at",
        ("error", "provision_error"),
    )  # fmt: skip
    return Answer(found, table=table_of(found, columns, "There are no such names."))


@question(app, "show")
def show(session: Session, name: SubdomainName) -> Answer:
    """Show a registered name: live, in the trash or cooling off; by its id in any state."""
    found = session.read(lambda tx: _describe_one(tx, find_for_operator(tx, name)))
    shown = {
        **found,
        "glue": [f"{each.host} {each.ipv4 or ''} {each.ipv6 or ''}".strip() for each in found["glue"]],
        "ds_records": [
            f"{each.key_tag} {each.algorithm} {each.digest_type} {each.digest}"
            for each in found["ds_records"]
        ],
    }
    return Answer(found, facts(**shown))


@change(app, "suspend")
def suspend(session: Session, name: SubdomainName, reason: ReasonForUser = None) -> Answer:
    """Suspend a name: it leaves the DNS, and its user can only read it."""
    suspended = session.write(suspend_verb, name, reason)
    return _answer(session, suspended, f"{suspended.fqdn} is suspended.")


@change(app, "unsuspend")
def unsuspend(session: Session, name: SubdomainName) -> Answer:
    """End a name's suspension: unless it is in the trash, it returns to the DNS as stored."""
    unsuspended = session.write(unsuspend_verb, name)
    return _answer(session, unsuspended, f"{unsuspended.fqdn} is no longer suspended.")


@change(app, "restore")
def restore(session: Session, name: SubdomainName) -> Answer:
    """Restore a name from the trash for its user, with the same expiry."""
    restored = session.write(operator_restore, name)
    return _answer(
        session, restored, f"{restored.fqdn} is back; it expires on {restored.expires_at:%Y-%m-%d}."
    )


@change(app, "purge")
def purge(
    session: Session,
    name: SubdomainName,
    release: Annotated[
        bool,
        Option("--release", "--now", help="Skip the cooling-off: the name can be registered at once."),
    ] = False,
) -> Answer:
    """Purge a name from the trash: it can't be restored any more, and cools off."""
    purged = session.write(purge_verb, name, release=release)
    line = f"{purged.fqdn} is free." if release else f"{purged.fqdn} is purged and cools off."
    return _answer(session, purged, line)
