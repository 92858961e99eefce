"""`sublet subdomain …`: the registered names of all users."""

from datetime import datetime
from typing import Annotated, Any

from typer import Argument, Option

from sublet.accounts.find import find_user
from sublet.accounts.store import find_emails
from sublet.child_zones import model as child_model
from sublet.child_zones.followers import CsyncFollower, DsFollower
from sublet.child_zones.model import Decision, Keep, Refuse, Remove, Replace, Wait
from sublet.cli.options import Limit, OnlyDomain, OnlyUser, ReasonForUser, SubdomainName, containing_option
from sublet.cli.output import Answer, key_value_lines, print_warning, select_members, table_of
from sublet.cli.session import Session, audited_command, command, new_app
from sublet.db import Database, Tx
from sublet.dns.delegation import delegation_warnings
from sublet.dns.types import DsRecord, GlueEntry
from sublet.errors import check_one_of, validation_failed
from sublet.health.checker import Checker
from sublet.platform_domains.model import ADMIN
from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.subdomains.delete import operator_delete
from sublet.subdomains.find import find_for_operator
from sublet.subdomains.lifecycle import auto_renew_at, derive_status, provisioning_status, restorable_until
from sublet.subdomains.list_store import list_all
from sublet.subdomains.model import STATUSES, OperatorPermission, Register, Subdomain, SubdomainFilter
from sublet.subdomains.purge import purge as purge_verb
from sublet.subdomains.register import register as register_verb
from sublet.subdomains.renew import operator_renew
from sublet.subdomains.restore import operator_restore
from sublet.subdomains.suspend import suspend as suspend_verb
from sublet.subdomains.suspend import unsuspend as unsuspend_verb
from sublet.subdomains.transfers.move import transfer as transfer_verb

app = new_app(
    "List and show registered names; register, check, renew, move, delete, suspend, restore and purge them."
)


_STORED_MEMBERS = (
    "id", "fqdn", "domain", "registration_type", "registration_source", "provision_error", "generation",
    "published_generation", "registered_at", "expires_at", "auto_renew_max_credits", "auto_renew_tried_at",
    "suspended_at", "suspended_reason", "trashed_at", "purged_at", "released_at",
)  # fmt: skip


Days = Annotated[int | None, Option(metavar="N", help="The length of the term in days.")]


def _describe(subdomain: Subdomain, emails: dict[int, str], now: datetime) -> dict[str, Any]:
    return {
        **select_members(subdomain, _STORED_MEMBERS),
        **select_members(subdomain.delegation, ("nameservers", "glue", "ds_records")),
        "email": emails.get(subdomain.user_id),
        "status": derive_status(subdomain, now),
        "provisioning_status": provisioning_status(subdomain),
        "auto_renew_at": auto_renew_at(subdomain),
        "restorable_until": restorable_until(subdomain),
    }


def _describe_one(tx: Tx, subdomain: Subdomain) -> dict[str, Any]:
    return _describe(subdomain, find_emails(tx, [subdomain.user_id]), tx.now)


def _answer(session: Session, subdomain: Subdomain, line: str) -> Answer:
    return Answer(session.read(_describe_one, subdomain), (line,))


@command(app, "list")
def list_subdomains(
    session: Session,
    user: OnlyUser = None,
    domain: OnlyDomain = None,
    status: Annotated[str | None, Option(metavar="STATUS", help=f"One of {', '.join(STATUSES)}.")] = None,
    containing: Annotated[str | None, containing_option("Part of the name, as ASCII or Unicode.")] = None,
    limit: Limit = 100,
) -> Answer:
    """List registered names, newest first. For names in the trash, give --status trashed."""
    if errors := check_one_of("status", status, STATUSES):
        raise validation_failed(errors)

    def query(tx: Tx) -> list[dict[str, Any]]:
        of = find_platform_domain(tx, domain).domain if domain is not None else None
        wanted = SubdomainFilter(status=status, domain=of, q=containing)
        user_id = find_user(tx, user).id if user is not None else None
        found = list_all(tx, wanted, limit, user_id=user_id)
        emails = find_emails(tx, (each.user_id for each in found))
        return [_describe(each, emails, tx.now) for each in found]

    found = session.read(query)
    columns = (
        "id", ("name", "fqdn"), ("user", "email"), "status", ("mode", "registration_type"), "expires_at",
        ("error", "provision_error"),
    )  # fmt: skip
    return Answer(found, table=table_of(found, columns, "There are no such names."))


@command(app, "show")
def show(session: Session, name: SubdomainName) -> Answer:
    """Show a name that is live, in the trash or cooling off. By id, show it in any state."""
    found = session.read(lambda tx: _describe_one(tx, find_for_operator(tx, name)))
    shown = {
        **found,
        "glue": [f"{each.host} {each.ipv4 or ''} {each.ipv6 or ''}".strip() for each in found["glue"]],
        "ds_records": [
            f"{each.key_tag} {each.algorithm} {each.digest_type} {each.digest}"
            for each in found["ds_records"]
        ],
    }
    return Answer(found, key_value_lines(**shown))


@audited_command(app, "register")
def register(
    session: Session,
    fqdn: Annotated[str, Argument(metavar="FQDN", help="The full name.")],
    user: Annotated[str, Option("--user", metavar="USER", help="The name's user: e-mail address or id.")],
    mode: Annotated[
        str,
        Option(
            metavar="MODE",
            help="admin: the operator renews the name. A mode of the platform domain: the user renews the "
            "name at the mode's price.",
        ),
    ] = ADMIN,
    days: Days = None,
    ns: Annotated[
        list[str] | None, Option(metavar="HOST", help="A nameserver. May be given several times.")
    ] = None,
    glue: Annotated[
        list[str] | None,
        Option(
            metavar="'HOST ADDRESS'",
            help="A nameserver below the name, and its addresses. May be given several times.",
        ),
    ] = None,
    ds: Annotated[
        list[str] | None,
        Option(metavar="'TAG ALGORITHM TYPE DIGEST'", help="A DS record. May be given several times."),
    ] = None,
) -> Answer:
    """Register a name for a user, without a charge and without a check of the free quota."""
    wanted = Register(
        fqdn=fqdn,
        nameservers=tuple(ns or ()),
        glue=tuple(entry for text in glue or () for entry in _split_glue(text)),
        ds_records=tuple(ds or ()),
    )
    done = session.write(
        register_verb,
        wanted,
        free_quota=session.settings.free_quota,
        permission=OperatorPermission(user, mode, days),
    )
    name = done.subdomain
    for warning in (*delegation_warnings(name.delegation), *done.warnings):
        print_warning(warning)
    return _answer(session, name, f"{name.fqdn} is registered until {name.expires_at:%Y-%m-%d}.")


def _split_glue(text: str) -> list[GlueEntry]:
    host, *addresses = text.split() or [""]
    return [
        GlueEntry(host, ipv6=each) if ":" in each else GlueEntry(host, ipv4=each)
        for each in addresses or [""]
    ]


@audited_command(app, "check-ds")
def check_ds(session: Session, name: SubdomainName) -> Answer:
    """Query a name's nameservers now for CDS and CDNSKEY records, and change its DS records accordingly."""
    settings = session.settings

    async def check(db: Database) -> tuple[str, Decision]:
        return await DsFollower(db, settings.health_resolver).check(Checker(settings, db), name)

    fqdn, decision = session.use(check)
    match decision:
        case Keep():
            outcome, line = "kept", f"The DS records of {fqdn} are unchanged."
        case Replace():
            outcome, line = "replaced", f"{fqdn} has new DS records."
        case Remove():
            outcome, line = "removed", f"The DS records of {fqdn} were removed."
        case Wait():
            outcome = "waiting"
            line = (
                f"{fqdn} gets its first DS records after {decision.until:%Y-%m-%d %H:%M} UTC, if its "
                "nameservers publish the same until then."
            )
        case Refuse(_, message):
            outcome, line = "refused", f"The DS records of {fqdn} are unchanged. {message}"
    refusal = decision.code if isinstance(decision, Refuse) else None
    ds_records = session.read(find_for_operator, name).delegation.ds_records
    return Answer(
        {
            "fqdn": fqdn,
            "outcome": outcome,
            "refusal": refusal,
            "ds_records": [select_members(each, DsRecord.__struct_fields__) for each in ds_records],
        },
        (line,),
    )


@audited_command(app, "check-csync")
def check_csync(session: Session, name: SubdomainName) -> Answer:
    """Query a name's nameservers now for a CSYNC record, and change its nameservers and glue accordingly."""
    settings = session.settings

    async def check(db: Database) -> tuple[str, child_model.CsyncDecision]:
        return await CsyncFollower(db, Checker(settings, db)).check(name)

    fqdn, decision = session.use(check)
    outcome, refusal, line = "kept", "", f"The nameservers and glue of {fqdn} stay as they are."
    match decision:
        case child_model.Change():
            outcome, line = "changed", f"{fqdn} has new nameservers or glue."
        case Refuse(code, message):
            outcome, refusal, line = "refused", code, f"{line} {message}"
    nameservers = session.read(find_for_operator, name).delegation.nameservers
    return Answer(
        {"fqdn": fqdn, "outcome": outcome, "refusal": refusal or None, "nameservers": list(nameservers)},
        (line,),
    )


@audited_command(app, "renew")
def renew(session: Session, name: SubdomainName, days: Days = None) -> Answer:
    """Add a term to a name in any mode, without a charge.

    Names in the trash can be renewed before a restore.
    """
    renewed = session.write(operator_renew, name, days)
    return _answer(session, renewed, f"{renewed.fqdn} expires on {renewed.expires_at:%Y-%m-%d}.")


@audited_command(app, "transfer")
def transfer(
    session: Session,
    name: SubdomainName,
    to: Annotated[str, Option("--to", metavar="USER", help="The new user: e-mail address or id.")],
) -> Answer:
    """Move a live name with its term and delegation to another user at once. Both users get a mail."""
    moved = session.write(transfer_verb, name, to)
    return _answer(session, moved, f"{moved.fqdn} was transferred.")


@audited_command(app, "delete")
def delete(session: Session, name: SubdomainName) -> Answer:
    """Move a name to the trash. It leaves the DNS, and can be restored until the purge."""
    deleted = session.write(operator_delete, name)
    return _answer(session, deleted, f"{deleted.fqdn} is in the trash.")


@audited_command(app, "suspend")
def suspend(session: Session, name: SubdomainName, reason: ReasonForUser = None) -> Answer:
    """Suspend a name. It leaves the DNS, and its user can't change it."""
    suspended = session.write(suspend_verb, name, reason)
    return _answer(session, suspended, f"{suspended.fqdn} is suspended.")


@audited_command(app, "unsuspend")
def unsuspend(session: Session, name: SubdomainName) -> Answer:
    """End a name's suspension. A live name returns to the DNS with its stored delegation."""
    unsuspended = session.write(unsuspend_verb, name)
    return _answer(session, unsuspended, f"{unsuspended.fqdn} is no longer suspended.")


@audited_command(app, "restore")
def restore(session: Session, name: SubdomainName) -> Answer:
    """Restore a name from the trash for its user, with the same expiry."""
    restored = session.write(operator_restore, name)
    return _answer(
        session, restored, f"{restored.fqdn} is restored. It expires on {restored.expires_at:%Y-%m-%d}."
    )


@audited_command(app, "purge")
def purge(
    session: Session,
    name: SubdomainName,
    release: Annotated[
        bool,
        Option("--release", "--now", help="Skip the cooling-off period. The name can be registered at once."),
    ] = False,
) -> Answer:
    """Purge a name from the trash. It can no longer be restored, and its cooling-off period begins."""
    purged = session.write(purge_verb, name, release=release)
    line = (
        f"{purged.fqdn} is free." if release else f"{purged.fqdn} is purged. Its cooling-off period begins."
    )
    return _answer(session, purged, line)
