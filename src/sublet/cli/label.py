"""`sublet label …`: labels in a class of their own."""

from typing import Annotated, Any

import typer

from sublet.accounts.store import list_organizations
from sublet.cli.commands import new_app
from sublet.cli.domain import Domain
from sublet.cli.output import Answer, Table
from sublet.cli.session import Session, change, question
from sublet.db import Tx
from sublet.errors import validation_failed
from sublet.platform_domains import store
from sublet.platform_domains.block_labels import block_labels
from sublet.platform_domains.find import find_platform_domain
from sublet.platform_domains.label_patterns import parse_pattern
from sublet.platform_domains.model import LABEL_CLASSES, Label, LabelPattern
from sublet.platform_domains.pattern_store import list_patterns
from sublet.platform_domains.set_label import describe, set_label
from sublet.platform_domains.unblock_labels import unblock_labels
from sublet.platform_domains.unset_label import unset_label
from sublet.subdomains.matching_names import list_matching

app = new_app("Labels in a class of their own (premium, special, reserved), and patterns that are blocked.")

LabelName = Annotated[str, typer.Argument(metavar="LABEL", help="The label, without the domain.")]
PatternText = Annotated[
    str, typer.Argument(metavar="PATTERN", help="Such as '*bank*'; quote it for the shell.")
]
OnlyDomain = Annotated[
    str | None, typer.Option("--domain", metavar="DOMAIN", help="Only under this one; else under all.")
]


@change(app, "set")
def set_(
    session: Session,
    domain: Domain,
    label: LabelName,
    label_class: Annotated[
        str, typer.Option("--class", metavar="CLASS", help=f"One of {', '.join(LABEL_CLASSES)}.")
    ],
    price: Annotated[
        int | None, typer.Option("--price", metavar="CREDITS", help="Instead of the offer's.")
    ] = None,
    renewal_price: Annotated[
        int | None, typer.Option("--renewal-price", metavar="CREDITS", help="Instead of the offer's.")
    ] = None,
    grant: Annotated[
        list[str] | None,
        typer.Option("--grant", metavar="ORGANIZATION", help="Repeated: who may take a special label."),
    ] = None,
) -> Answer:
    """List a label in a class, in the place of what was listed."""
    listed = session.write(
        set_label,
        domain,
        label,
        label_class,
        price_credits=price,
        renewal_price_credits=renewal_price,
        organizations=grant or (),
    )
    return Answer(describe(listed), (f"The label {listed.label} is {listed.label_class}.",))


@change(app, "unset")
def unset(session: Session, domain: Domain, label: LabelName) -> Answer:
    """Take a label from the list: it is again what the rules make of it."""
    listed = session.write(unset_label, domain, label)
    return Answer(describe(listed), (f"The label {listed.label} is no longer listed.",))


@question(app, "list")
def list_labels(session: Session, domain: Domain) -> Answer:
    """List the labels of a platform domain that are in a class of their own."""

    def ask(tx: Tx) -> tuple[list[Label], dict[int, str]]:
        names = {each.id: each.name for each in list_organizations(tx).values()}
        return store.list_labels(tx, find_platform_domain(tx, domain).id), names

    labels, names = session.read(ask)
    rows: tuple[tuple[Any, ...], ...] = tuple(
        (
            each.label,
            each.label_class,
            each.price_credits,
            each.renewal_price_credits,
            [names[organization_id] for organization_id in each.organization_ids],
        )
        for each in labels
    )
    columns = ("label", "class", "price", "renewal price", "granted to")
    return Answer([describe(each) for each in labels], table=Table(columns, rows, "No label is listed."))


@change(app, "block")
def block(session: Session, pattern: PatternText, domain: OnlyDomain = None) -> Answer:
    """Let nobody register the labels of a pattern: * is any characters, ? is one. Names that are held stay."""
    added = session.write(block_labels, pattern, domain)
    held = len(session.read(list_matching, (added.pattern,), domain))
    lines = [f"Nobody can register {added.pattern} {'under ' + domain if domain else 'anywhere'} any more."]
    if held:
        lines.append(f"Held names that match: {held}. See `sublet label matches`.")
    return Answer(session.read(_with_domain, added), tuple(lines))


@change(app, "unblock")
def unblock(session: Session, pattern: PatternText, domain: OnlyDomain = None) -> Answer:
    """Let the labels of a pattern be registered again."""
    removed = session.write(unblock_labels, pattern, domain)
    return Answer(session.read(_with_domain, removed), (f"{removed.pattern} is no longer blocked.",))


@question(app, "blocked")
def blocked(session: Session) -> Answer:
    """List the patterns of labels that nobody may register."""
    found = session.read(lambda tx: [_with_domain(tx, each) for each in list_patterns(tx)])
    rows = tuple((each["pattern"], each["domain"] or "all", each["created_at"]) for each in found)
    return Answer(found, table=Table(("pattern", "under", "since"), rows, "No pattern is blocked."))


@question(app, "matches")
def matches(
    session: Session,
    pattern: Annotated[
        str | None, typer.Option("--pattern", metavar="PATTERN", help="One to try, instead of those blocked.")
    ] = None,
    domain: OnlyDomain = None,
) -> Answer:
    """List the names that are held and match a pattern: one to try, or those that are blocked."""
    if pattern is not None:
        pattern, errors = parse_pattern(pattern)
        if errors:
            raise validation_failed(errors)
    found = session.read(list_matching, (pattern,) if pattern is not None else None, domain)
    rows = tuple((each.id, each.fqdn, each.unicode, each.email, each.patterns) for each in found)
    columns = ("id", "name", "shown as", "user", "patterns")
    return Answer(found, table=Table(columns, rows, "No name that is held matches."))


def _with_domain(tx: Tx, pattern: LabelPattern) -> dict[str, Any]:
    of = pattern.platform_domain_id
    platform_domain = store.find_platform_domain(tx, of) if of is not None else None
    return {
        "id": pattern.id,
        "pattern": pattern.pattern,
        "domain": platform_domain.domain if platform_domain is not None else None,
        "created_at": pattern.created_at,
    }
