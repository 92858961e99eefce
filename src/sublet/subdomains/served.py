"""Compare the answers of the parent zone's name servers for a name with its stored delegation, and advise its user (rules).

An extension (docs/spec-choices.md, "Delegation"). Users read the sentences, so these contain no addresses or settings of the operator.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sublet.dns.difference import describe_difference
from sublet.dns.parent_servers import ServerAnswer
from sublet.dns.serial import is_newer
from sublet.dns.types import Record
from sublet.subdomains.lifecycle import is_delegated, provisioning_failed
from sublet.subdomains.model import Subdomain

FAILURES = {
    "not_set_up": "The operator has not configured an address for this name server. Open a ticket.",
    "unreachable": "The name server can't be reached.",
    "no_answer": "The name server did not answer in time.",
    "bad_response": "The name server's answers are not those of a name server of this zone.",
}
"""The sentence for each `ServerAnswer.failure`."""

_OPEN_A_TICKET = "open a ticket if it doesn't change"


@dataclass(frozen=True, slots=True)
class ServerVerdict:
    """The verdict on a server's answer. `matches` is None without an answer, and `error` then says why.

    `difference` is a sentence. `explained` is set if a change in progress may explain the difference: "pending" (not published yet) or
    "behind" (published, but the secondary has an older serial).
    """

    answer: ServerAnswer
    matches: bool | None
    difference: str | None = None
    error: str | None = None
    explained: str | None = None


@dataclass(frozen=True, slots=True)
class ServedReport:
    """The verdicts on all servers, and a summary with advice. `in_agreement` is True if all servers answered with exactly the stored delegation."""

    servers: tuple[ServerVerdict, ...]
    in_agreement: bool
    summary: str


def report_served(
    subdomain: Subdomain,
    desired: Sequence[Record],
    answers: Sequence[ServerAnswer],
    *,
    changed_meanwhile: bool = False,
) -> ServedReport:
    """Return the report on the servers' answers for a name with the records `desired`.

    The first of `answers` is from the primary or built-in name server. `changed_meanwhile` is True if the name was changed or published
    during the queries.
    """
    pending = ""
    if changed_meanwhile:
        pending = "the name was changed during the queries"
    elif provisioning_failed(subdomain):
        pending = "the last change of the name could not be published yet"
    elif subdomain.generation != subdomain.published_generation:
        pending = "the last change of the name is not published yet"
    published = None if pending else subdomain.published_serial
    differences = [describe_difference(subdomain.fqdn, desired, each.records) for each in answers]
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
    """Return the verdict on one answer. `first` is the primary's answer if it matches the stored delegation."""
    if answer.failure is not None or answer.serial is None:
        return ServerVerdict(answer, None, error=FAILURES[answer.failure or "bad_response"])
    if difference is None:
        return ServerVerdict(answer, matches=True)
    explained, why = None, ""
    older = f": its zone has the serial {answer.serial}, older than the"
    secondary = answer.server.role == "secondary"
    if published_serial is not None and is_newer(published_serial, than=answer.serial):
        why = f"{older} {published_serial} of the last change, so "
        why += "the change has not reached it yet" if secondary else "an old copy of the zone may be restored"
        explained = "behind" if secondary else None
    elif secondary and first is not None and is_newer(first.serial or 0, than=answer.serial):
        # By its serial the secondary has the published change, so the primary may have had wrong records for a time.
        why = (
            f"{older} {first.serial} of {first.server.server}, so a later change may not have reached it yet"
        )
        explained = "behind"
    elif pending:
        explained, why = "pending", f"; the reason may be that {pending}"
    return ServerVerdict(answer, matches=False, difference=_sentence(difference + why), explained=explained)


def _summary(subdomain: Subdomain, verdicts: Sequence[ServerVerdict], pending: str) -> str:
    """Return a summary of the servers' answers, with the reason and what to do."""
    if not verdicts:
        return "The operator has not configured a name server of the zone. Open a ticket."
    agreeing = all(each.matches for each in verdicts)
    answers = _agreeing(subdomain, len(verdicts)) if agreeing else _differing(subdomain, verdicts)
    if provisioning_failed(subdomain):
        return f"{answers}. The last change is not published: {_lowered(subdomain.provision_error or '')}"
    if pending:
        return f"{answers}. {_sentence(pending)[:-1]}; ask again in a few seconds."
    return f"{answers}; {_agreed_advice(subdomain) if agreeing else _advice(verdicts)}."


def _agreeing(subdomain: Subdomain, count: int) -> str:
    every = "The name server answers" if count == 1 else f"All {count} name servers answer"
    none = "the name server has" if count == 1 else f"all {count} name servers have"
    if is_delegated(subdomain):
        return f"{every} with what is stored"
    state = "has no nameservers"
    if subdomain.trashed_at is not None:
        state = "is in the trash"
    if subdomain.suspended_at is not None:
        state = "is suspended"
    return f"The name {state}, so {none} no delegation of it"


def _agreed_advice(subdomain: Subdomain) -> str:
    if is_delegated(subdomain):
        return "no action is needed"
    if subdomain.suspended_at is not None:
        return "open a ticket to ask for a review"
    if subdomain.trashed_at is not None:
        return "send POST …/restore to restore it"
    return "send PUT …/nameservers to set nameservers"


def _differing(subdomain: Subdomain, verdicts: Sequence[ServerVerdict]) -> str:
    """Return a summary of each server's answer. Hosts with the same answer are grouped, the primary's group first."""
    parts: dict[tuple[str, str], list[str]] = {}
    for each in verdicts:
        parts.setdefault(_answer(subdomain, each), []).append(each.answer.server.server)
    return ", and ".join(
        f"{', '.join(hosts)} {one if len(hosts) == 1 else several}" for (one, several), hosts in parts.items()
    )


def _answer(subdomain: Subdomain, verdict: ServerVerdict) -> tuple[str, str]:
    """Return the predicate for one server with this verdict, and the predicate for several servers."""
    if verdict.error is not None:
        why = _lowered(verdict.error).partition(".")[0]  # without the advice
        return f"gives no answer ({why})", f"give no answer ({why})"
    if verdict.matches and is_delegated(subdomain):
        return "answers with what is stored", "answer with what is stored"
    if verdict.matches:
        return "has no delegation of it, as intended", "have no delegation of it, as intended"
    if verdict.explained == "behind":
        return "does not have the last change yet", "do not have the last change yet"
    return "answers with other records", "answer with other records"


def _advice(verdicts: Sequence[ServerVerdict]) -> str:
    """Return advice for servers that differ although the last change is published."""
    primary = verdicts[0]
    if primary.matches is False:
        return f"another program changed the zone; {_OPEN_A_TICKET}"
    behind = any(each.explained == "behind" for each in verdicts)
    different = any(each.matches is False and each.explained is None for each in verdicts)
    wait = "minute" if behind and not different and primary.error is None else "while"
    return f"ask again in a {wait}, and {_OPEN_A_TICKET}"


def _sentence(text: str) -> str:
    """Return a text as a sentence. A domain name at its start stays in lower case."""
    first = text.partition(" ")[0]
    return (text if "." in first else text[:1].upper() + text[1:]) + "."


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]
