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
    "not_set_up": "The registry does not know where this server is; the operator has to look at it.",
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
    summary = _summary(subdomain, verdicts, pending=bool(pending), in_agreement=in_agreement)
    return ServedReport(verdicts, in_agreement, summary)


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


def _summary(
    subdomain: Subdomain, verdicts: Sequence[ServerVerdict], *, pending: bool, in_agreement: bool
) -> str:
    if not verdicts:
        return "No name server of the zone is known here; the operator has to look at it."
    if in_agreement:
        return _agreeing(subdomain, len(verdicts))
    if provisioning_failed(subdomain):
        return f"The last change is not published: {_lowered(subdomain.provision_error or '')}"
    if pending:
        return "The last change of this name is on its way to the name servers; ask again in a few seconds."
    first = verdicts[0]
    host = first.answer.server.server
    if first.error is not None:
        return f"{host}, through which the zone is changed, says nothing now ({_lowered(first.error)[:-1]}); ask again in a while, and {_OPEN_A_TICKET}."
    if not first.matches:
        return f"{host} does not answer with what was published, so the zone was changed past the registry; {_OPEN_A_TICKET}."
    return _secondaries(verdicts)


def _agreeing(subdomain: Subdomain, count: int) -> str:
    every = "The name server answers" if count == 1 else f"All {count} name servers answer"
    none = "the name server has" if count == 1 else f"all {count} name servers have"
    if is_delegated(subdomain):
        return f"{every} with what is stored; nothing is to be done."
    if subdomain.suspended_at is not None:
        return f"The name is suspended, so {none} no delegation of it; open a ticket to have it looked at."
    if subdomain.trashed_at is not None:
        return f"The name is in the trash, so {none} no delegation of it; POST …/restore brings it back."
    return f"The name has no nameservers, so {none} no delegation of it; PUT …/nameservers gives it one."


def _secondaries(verdicts: Sequence[ServerVerdict]) -> str:
    """Return the sentence on servers of which the first one answers with what is stored, and others do not."""
    different = [each for each in verdicts if each.matches is False and each.explained is None]
    behind = [each for each in verdicts if each.explained is not None]
    silent = [each for each in verdicts if each.error is not None]
    parts = []
    if different:
        parts.append(f"{_hosts(different)} {_verb(different, 'answers', 'answer')} with something else")
    if behind:
        parts.append(f"the last change is still on its way to {_hosts(behind)}")
    if silent:
        parts.append(f"{_hosts(silent)} {_verb(silent, 'gives', 'give')} no answer")
    host = verdicts[0].answer.server.server
    do = "ask again in a minute" if behind and not different else "ask again in a while"
    return f"{host} answers with what is stored, but {' and '.join(parts)}; {do}, and {_OPEN_A_TICKET}."


def _hosts(verdicts: Sequence[ServerVerdict]) -> str:
    return ", ".join(each.answer.server.server for each in verdicts)


def _verb(verdicts: Sequence[ServerVerdict], one: str, several: str) -> str:
    return one if len(verdicts) == 1 else several


def _sentence(text: str) -> str:
    """Return a text as a sentence; one that starts with a name keeps that as it is written."""
    first = text.partition(" ")[0]
    return (text if "." in first else text[:1].upper() + text[1:]) + "."


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]
