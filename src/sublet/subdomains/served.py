"""What the name servers of the parent zone answer for a name, held against what is stored, and what follows for its user.

An extension (docs/spec-choices.md, "Delegation"). The sentences are the user's: they name no address and no setting of the operator's.
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
    "not_set_up": "The registry has no address for it. The operator has to set one.",
    "unreachable": "It can't be reached.",
    "no_answer": "It did not answer in time.",
    "bad_response": "It does not answer for this zone as a name server of it does.",
}
"""Why a server says nothing of the delegation, by `ServerAnswer.failure`."""

_OPEN_A_TICKET = "if it stays so, open a ticket"


@dataclass(frozen=True, slots=True)
class ServerVerdict:
    """What a server's answer means: `matches` is None where there is none, and `error` says why then.

    `difference` is a sentence. `explained` tells that a change on its way is why, or may be: "pending" (not published yet) or
    "behind" (published, and the secondary has an older serial).
    """

    answer: ServerAnswer
    matches: bool | None
    difference: str | None = None
    error: str | None = None
    explained: str | None = None


@dataclass(frozen=True, slots=True)
class ServedReport:
    """The verdicts on all servers; `in_agreement` if every one answered with exactly what is stored; a sentence to act on."""

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
    """Return what the answers of a zone's servers mean for a name, whose records are to be `desired`.

    The first answer is that of the server that is written to. `changed_meanwhile` tells that the name was changed or published
    while the servers were asked.
    """
    pending = ""
    if changed_meanwhile:
        pending = "the name was changed while the servers were asked"
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
    """Return what one answer means; `first` is that of the server that is written to, where it is what is stored."""
    if answer.failure is not None or answer.serial is None:
        return ServerVerdict(answer, None, error=FAILURES[answer.failure or "bad_response"])
    if difference is None:
        return ServerVerdict(answer, matches=True)
    explained, why = None, ""
    older = f": its zone has the serial {answer.serial}, older than the"
    secondary = answer.server.role == "secondary"
    if published_serial is not None and is_newer(published_serial, than=answer.serial):
        why = f"{older} {published_serial} with which the name was published, so "
        why += (
            "the change is still on its way to it" if secondary else "an older state of the zone may be back"
        )
        explained = "behind" if secondary else None
    elif secondary and first is not None and is_newer(first.serial or 0, than=answer.serial):
        # It has what was published, by its serial; the server that is written to may have been wrong in between.
        why = f"{older} {first.serial} of {first.server.server}, so a later change may be on its way to it"
        explained = "behind"
    elif pending:
        explained, why = "pending", f"; {pending}, which may be why"
    return ServerVerdict(answer, matches=False, difference=_sentence(difference + why), explained=explained)


def _summary(subdomain: Subdomain, verdicts: Sequence[ServerVerdict], pending: str) -> str:
    """Return what the servers answer, as `verdicts` have it, then why and what to do."""
    if not verdicts:
        return "No name server of the zone is known here; the operator has to look at it."
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
        return "open a ticket to have it looked at"
    if subdomain.trashed_at is not None:
        return "POST …/restore brings it back"
    return "PUT …/nameservers gives it one"


def _differing(subdomain: Subdomain, verdicts: Sequence[ServerVerdict]) -> str:
    """Return what each server answers: hosts with the same answer together, beginning with the server that is written to."""
    parts: dict[tuple[str, str], list[str]] = {}
    for each in verdicts:
        parts.setdefault(_answer(subdomain, each), []).append(each.answer.server.server)
    return ", and ".join(
        f"{', '.join(hosts)} {one if len(hosts) == 1 else several}" for (one, several), hosts in parts.items()
    )


def _answer(subdomain: Subdomain, verdict: ServerVerdict) -> tuple[str, str]:
    """Return what one server does, and the same for several servers."""
    if verdict.error is not None:
        why = _lowered(verdict.error)[:-1]
        return f"gives no answer ({why})", f"give no answer ({why})"
    if verdict.matches and is_delegated(subdomain):
        return "answers with what is stored", "answer with what is stored"
    if verdict.matches:
        return "has no delegation of it, as intended", "have no delegation of it, as intended"
    if verdict.explained == "behind":
        return "does not have the last change yet", "do not have the last change yet"
    return "answers with something else", "answer with something else"


def _advice(verdicts: Sequence[ServerVerdict]) -> str:
    """Return why the servers differ although the last change is published, and what to do."""
    primary = verdicts[0]
    if primary.matches is False:
        return f"the zone was changed past the registry; {_OPEN_A_TICKET}"
    behind = any(each.explained == "behind" for each in verdicts)
    different = any(each.matches is False and each.explained is None for each in verdicts)
    wait = "minute" if behind and not different and primary.error is None else "while"
    return f"ask again in a {wait}, and {_OPEN_A_TICKET}"


def _sentence(text: str) -> str:
    """Return a text as a sentence; one that starts with a name keeps that as it is written."""
    first = text.partition(" ")[0]
    return (text if "." in first else text[:1].upper() + text[1:]) + "."


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]
