"""`sublet label …`: labels listed in a class, and blocked patterns."""

from typing import Annotated, Any

from typer import Argument, Option

from sublet.accounts.store import list_organizations
from sublet.cli.options import Domain, OnlyDomain, invalid_option
from sublet.cli.output import Answer, Column, print_warning, table_of
from sublet.cli.session import Session, audited_command, command, new_app
from sublet.db import Tx
from sublet.errors import validation_failed
from sublet.platform_domains import store
from sublet.platform_domains.labels import (
    block_labels,
    describe_label,
    parse_pattern,
    set_label,
    unblock_labels,
    unset_label,
)
from sublet.platform_domains.model import LABEL_CLASSES, Label, LabelPattern
from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.subdomains.matching_names import list_matching

app = new_app("Labels listed in a class (premium, special, reserved), and blocked patterns.")

LabelName = Annotated[str, Argument(metavar="LABEL", help="The label, without the domain.")]
OfDomain = Annotated[
    str, Option("--domain", metavar="DOMAIN", help="The platform domain of the label: name or id.")
]
PatternText = Annotated[str, Argument(metavar="PATTERN", help="Such as '*bank*'; quote it for the shell.")]
Price = Annotated[int | None, Option(metavar="CREDITS", help="The price; default: the offer's.")]


@audited_command(app, "set", former_arguments=("domain", "label"))
def set_(
    session: Session,
    label: LabelName,
    domain: OfDomain,
    label_class: Annotated[
        str, Option("--class", metavar="CLASS", help=f"One of {', '.join(LABEL_CLASSES)}.")
    ],
    price: Price = None,
    renewal_price: Price = None,
    grant: Annotated[
        list[str] | None,
        Option(
            metavar="ORGANIZATION",
            help="An organization that may register a special label. May be given several times.",
        ),
    ] = None,
) -> Answer:
    """List a label in a class. This replaces an earlier entry of the label."""
    listed = session.write(
        set_label,
        domain,
        label,
        label_class,
        price_credits=price,
        renewal_price_credits=renewal_price,
        organizations=grant or (),
    )
    return Answer(describe_label(listed), (f"The label {listed.label} is {listed.label_class}.",))


@audited_command(app, "unset", former_arguments=("domain", "label"))
def unset(session: Session, label: LabelName, domain: OfDomain) -> Answer:
    """Remove a label from the list, so that the rules decide its class again."""
    listed = session.write(unset_label, domain, label)
    return Answer(describe_label(listed), (f"The label {listed.label} is no longer listed.",))


@command(app, "list")
def list_labels(session: Session, domain: Domain) -> Answer:
    """List the labels of a platform domain that are listed in a class."""

    def query(tx: Tx) -> tuple[list[Label], dict[int, str]]:
        names = {each.id: each.name for each in list_organizations(tx).values()}
        return store.list_labels(tx, find_platform_domain(tx, domain).id), names

    labels, names = session.read(query)
    columns: list[Column] = [
        *("label", ("class", "label_class"), "price_credits", "renewal_price_credits"),
        ("granted to", lambda each: [names[organization_id] for organization_id in each.organization_ids]),
    ]
    table = table_of(labels, columns, "No label is listed.")
    return Answer([describe_label(each) for each in labels], table=table)


@audited_command(app, "block")
def block(session: Session, pattern: PatternText, domain: OnlyDomain = None) -> Answer:
    """Block the labels that match a pattern.

    `*` matches any characters, `?` one character. Registered names stay.
    """
    added = session.write(block_labels, pattern, domain)
    held = len(session.read(list_matching, (added.pattern,), domain))
    lines = [f"{added.pattern} is blocked {'under ' + domain if domain else 'everywhere'}."]
    if held:
        lines.append(f"Registered names that match: {held}. See `sublet label matches`.")
    return Answer(session.read(_describe_pattern, added), tuple(lines))


@audited_command(app, "unblock")
def unblock(session: Session, pattern: PatternText, domain: OnlyDomain = None) -> Answer:
    """Allow the labels that match a pattern again."""
    removed = session.write(unblock_labels, pattern, domain)
    line = f"{removed.pattern} is no longer blocked."
    return Answer(session.read(_describe_pattern, removed), (line,))


@command(app, "blocked")
def blocked(session: Session) -> Answer:
    """List the patterns of blocked labels."""
    found = session.read(lambda tx: [_describe_pattern(tx, each) for each in store.list_patterns(tx)])
    columns: list[Column] = [
        "pattern",
        ("under", lambda each: each["domain"] or "all"),
        ("since", "created_at"),
    ]
    return Answer(found, table=table_of(found, columns, "No pattern is blocked."))


@command(app, "matches")
def matches(
    session: Session,
    pattern: Annotated[
        str | None, Argument(metavar="PATTERN", help="The pattern; default: all blocked patterns.")
    ] = None,
    domain: OnlyDomain = None,
    old_pattern: Annotated[str | None, Option("--pattern", metavar="PATTERN", hidden=True)] = None,
) -> Answer:
    """List the registered names that match a pattern.

    Without PATTERN, list the names that match a blocked pattern.
    """
    if old_pattern is not None:
        print_warning(
            "--pattern will be removed. Give the pattern without it: `sublet label matches PATTERN`."
        )
        if pattern is not None:
            raise invalid_option("pattern", "The pattern was given twice. Give it once, without --pattern.")
        pattern = old_pattern
    if pattern is not None:
        pattern, errors = parse_pattern(pattern)
        if errors:
            raise validation_failed(errors)
    found = session.read(list_matching, (pattern,) if pattern is not None else None, domain)
    columns = ("id", ("name", "fqdn"), ("shown as", "unicode"), ("user", "email"), "patterns")
    return Answer(found, table=table_of(found, columns, "No registered name matches."))


def _describe_pattern(tx: Tx, pattern: LabelPattern) -> dict[str, Any]:
    platform_domain = (
        store.find_platform_domain(tx, pattern.platform_domain_id) if pattern.platform_domain_id else None
    )
    return {
        "id": pattern.id,
        "pattern": pattern.pattern,
        "domain": platform_domain.domain if platform_domain is not None else None,
        "created_at": pattern.created_at,
    }
