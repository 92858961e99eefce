"""Compare the answers of the zone's servers with what a name stores: a delegation, or records
(docs/spec-choices.md, "Delegation").

Users read the sentences, so these contain no addresses or settings of the operator.
"""

from collections.abc import Sequence

from msgspec import Struct

from sublet.dns.difference import describe_difference
from sublet.dns.parent_servers import ParentServer, ServerAnswer
from sublet.dns.serial import is_newer
from sublet.dns.types import Record
from sublet.subdomains.lifecycle import has_records, is_in_dns, is_published, provisioning_failed
from sublet.subdomains.model import Subdomain

FAILURES = {
    "not_set_up": "The operator has not configured an address for this name server. Open a ticket.",
    "unreachable": "The name server can't be reached.",
    "no_answer": "The name server did not answer in time.",
    "bad_response": "The name server gave no usable answer for this zone.",
}
"""The sentence for each `ServerAnswer.failure`."""

_ANSWERS = {
    "stored": (
        "{servers} answers with the stored {content} of {fqdn}.",
        "{servers} answer with the stored {content} of {fqdn}.",
    ),
    "absent": (
        "{servers} has no {content} of {fqdn}, as intended.",
        "{servers} have no {content} of {fqdn}, as intended.",
    ),
    "behind": (
        "{servers} does not have the last change of {fqdn} yet.",
        "{servers} do not have the last change of {fqdn} yet.",
    ),
    "different": (
        "{servers} answers for {fqdn} with records that differ from the stored {content}.",
        "{servers} answer for {fqdn} with records that differ from the stored {content}.",
    ),
    "present": (
        "{servers} has records of {fqdn}, which should not be in the DNS.",
        "{servers} have records of {fqdn}, which should not be in the DNS.",
    ),
    "not_set_up": ("The operator has not configured an address for {servers}.",) * 2,
    "unreachable": ("{servers} can't be reached.",) * 2,
    "no_answer": ("{servers} did not answer in time.",) * 2,
    "bad_response": ("{servers} gave no usable answer for this zone.",) * 2,
}
"""The sentences for one server and for several servers with the same verdict, by `_kind`."""

_ALL_AGREE = {
    "published": (
        "The name server answers with the stored {content} of {fqdn}.",
        "All {count} name servers answer with the stored {content} of {fqdn}.",
    ),
    "empty": (
        "{fqdn} has no nameservers, so the name server has no delegation of it.",
        "{fqdn} has no nameservers, so all {count} name servers have no delegation of it.",
    ),
    "trashed": (
        "{fqdn} is in the trash, so the name server has no {content} of it.",
        "{fqdn} is in the trash, so all {count} name servers have no {content} of it.",
    ),
    "suspended": (
        "{fqdn} is suspended, so the name server has no {content} of it.",
        "{fqdn} is suspended, so all {count} name servers have no {content} of it.",
    ),
}
"""The sentences for one server and for several servers if all servers agree with what is stored, by `_state`.
`content` is delegation or records.
"""

_ADVICE = {
    "published": "No action is needed.",
    "empty": "Set nameservers or records.",
    "trashed": "Restore it to publish it again.",
    "suspended": "Open a ticket to ask for a review.",
}
"""What to do if all servers agree, by `_state`."""

_CAUSES = {
    "old_zone": "An old copy of the zone may have been restored.",
    "unknown": "Another program changed the zone.",
}
"""The sentence for each cause of a difference on the primary when no change is pending."""

_IF_IT_PERSISTS = "If the problem persists, open a ticket."


class ServerVerdict(Struct, frozen=True):
    """The verdict on a server's answer. If there is no answer, `matches` is None and `error` is the reason.

    `difference` is a text for the user. `cause` is its probable cause: "pending" (the last change is not
    published yet), "behind" (the secondary has an older serial), "old_zone" (the primary has an older
    serial), or "unknown".
    """

    answer: ServerAnswer
    matches: bool | None
    difference: str | None = None
    error: str | None = None
    cause: str | None = None


class ServedReport(Struct, frozen=True):
    """The verdicts on all servers, and a summary with advice.

    `in_agreement` is True if all servers answered with exactly what is stored.
    """

    servers: tuple[ServerVerdict, ...]
    in_agreement: bool
    summary: str


def warnings_of_lacking(fqdn: str, lacking: Sequence[ParentServer]) -> tuple[str, ...]:
    """Return a warning about servers that aren't known to answer with a published change."""
    if not lacking:
        return ()
    hosts = ", ".join(each.server for each in lacking)
    warning = (
        f"These name servers are not known to have the last change of {fqdn} yet: {hosts}. Look at what "
        "they answer. If they still lack it after a minute, open a ticket."
    )
    return (warning,)


def report_served(
    subdomain: Subdomain,
    desired: Sequence[Record],
    answers: Sequence[ServerAnswer],
    *,
    changed_meanwhile: bool = False,
) -> ServedReport:
    """Return the report on the servers' answers for a name that should have the records `desired`.

    The first of `answers` is that of the primary or of the built-in name server. `changed_meanwhile` is True
    if the name was changed or published during the queries.
    """
    pending = ""
    if changed_meanwhile:
        pending = "The name was changed during the queries."
    elif provisioning_failed(subdomain):
        pending = "The last change of the name could not be published yet."
    elif not is_published(subdomain):
        pending = "The last change of the name is not published yet."
    published = None if pending else subdomain.published_serial
    is_delegation = not has_records(subdomain)
    differences = [
        describe_difference(subdomain.fqdn, desired, each.records, is_delegation=is_delegation)
        for each in answers
    ]
    first = answers[0] if answers and answers[0].failure is None and differences[0] is None else None
    verdicts = tuple(
        _verdict(answer, difference, pending, published, first)
        for answer, difference in zip(answers, differences, strict=True)
    )
    in_agreement = bool(verdicts) and all(each.matches for each in verdicts)
    return ServedReport(verdicts, in_agreement, _summary(subdomain, verdicts, pending))


def _verdict(
    answer: ServerAnswer,
    difference: str | None,
    pending: str,
    published_serial: int | None,
    first: ServerAnswer | None,
) -> ServerVerdict:
    """Return the verdict on one answer. `first` is the primary's answer if it matches what is stored."""
    if answer.failure is not None or answer.serial is None:
        return ServerVerdict(answer, None, error=FAILURES[answer.failure or "bad_response"])
    if difference is None:
        return ServerVerdict(answer, matches=True)
    cause, reason = "unknown", ""
    serial = f"The server's zone has the serial {answer.serial}, but"
    is_secondary = answer.server.role == "secondary"
    if published_serial is not None and is_newer(published_serial, than=answer.serial):
        cause, consequence = (
            ("behind", "the change has not reached the server yet.")
            if is_secondary
            else ("old_zone", "an old copy of the zone may have been restored.")
        )
        reason = f"{serial} the last change has {published_serial}, so {consequence}"
    elif is_secondary and first is not None and is_newer(first.serial or 0, than=answer.serial):
        # The secondary's serial includes the published change, so the primary may have had wrong records for
        # a time.
        cause = "behind"
        reason = (
            f"{serial} {first.server.server} has {first.serial}, so a later change may not have reached "
            "the server yet."
        )
    elif pending:
        cause, reason = "pending", f"{pending} This may explain the difference."
    return ServerVerdict(answer, matches=False, difference=f"{difference} {reason}".rstrip(), cause=cause)


def _summary(subdomain: Subdomain, verdicts: Sequence[ServerVerdict], pending: str) -> str:
    """Return a summary of the servers' answers, with the reason and what to do."""
    if not verdicts:
        return "The operator has not configured a name server of the zone. Open a ticket."
    state, fqdn = _state(subdomain), subdomain.fqdn
    in_agreement = all(each.matches for each in verdicts)
    if in_agreement:
        sentence = _ALL_AGREE[state][len(verdicts) > 1]
        answers = sentence.format(fqdn=fqdn, count=len(verdicts), content=_content(subdomain))
    else:
        answers = _describe_answers(subdomain, state, verdicts)
    if provisioning_failed(subdomain):
        return f"{answers} The last change is not published. {subdomain.provision_error}"
    if pending:
        return f"{answers} {pending} Ask again in a few seconds."
    return f"{answers} {_ADVICE[state].format(fqdn=fqdn) if in_agreement else _advice(verdicts)}"


def _state(subdomain: Subdomain) -> str:
    """Return the key of a name's state in `_ALL_AGREE` and `_ADVICE`."""
    if is_in_dns(subdomain):
        return "published"
    if subdomain.suspended_at is not None:
        return "suspended"
    return "empty" if subdomain.trashed_at is None else "trashed"


def _content(subdomain: Subdomain) -> str:
    return "records" if has_records(subdomain) else "delegation"


def _describe_answers(subdomain: Subdomain, state: str, verdicts: Sequence[ServerVerdict]) -> str:
    """Return a sentence for each group of servers with the same verdict, the primary's group first."""
    groups: dict[str, list[str]] = {}
    for each in verdicts:
        groups.setdefault(_kind(state, each), []).append(each.answer.server.server)
    return " ".join(
        _ANSWERS[kind][len(servers) > 1].format(
            servers=", ".join(servers), fqdn=subdomain.fqdn, content=_content(subdomain)
        )
        for kind, servers in groups.items()
    )


def _kind(state: str, verdict: ServerVerdict) -> str:
    """Return the key of a verdict in `_ANSWERS`."""
    if verdict.error is not None:
        return verdict.answer.failure or "bad_response"
    if verdict.cause == "behind":
        return "behind"
    if state == "published":
        return "stored" if verdict.matches else "different"
    return "absent" if verdict.matches else "present"


def _advice(verdicts: Sequence[ServerVerdict]) -> str:
    """Return advice if servers differ although the last change is published."""
    primary = verdicts[0]
    if primary.cause is not None:
        return f"{_CAUSES[primary.cause]} {_IF_IT_PERSISTS}"
    is_only_behind = primary.error is None and {each.cause for each in verdicts} == {None, "behind"}
    wait = "minute" if is_only_behind else "while"
    return f"Ask again in a {wait}. {_IF_IT_PERSISTS}"
