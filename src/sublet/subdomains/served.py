"""What the name servers of the parent zone answer for a name, held against what is stored, and what follows for its user.

An extension (docs/spec-choices.md, "Delegation"). The sentences are the user's: they name no address and no setting of the operator's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sublet.dns.difference import describe_difference
from sublet.dns.parent_servers import ServerAnswer
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

    `difference` is a sentence. `explained` tells that a change on its way is why: "pending" (not published yet) or "behind"
    (published, and the secondary has an older serial).
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
    pending = changed_meanwhile or subdomain.generation != subdomain.published_generation
    known = [] if pending else [("with which your name was published", subdomain.published_serial)]
    first = answers[0] if answers else None
    if first is not None:
        known.append((f"of {first.server.server}", first.serial))
    verdicts = tuple(
        _verdict(subdomain, desired, answer, known, pending=pending, changed_meanwhile=changed_meanwhile)
        for answer in answers
    )
    in_agreement = bool(verdicts) and all(each.matches for each in verdicts)
    return ServedReport(
        verdicts, in_agreement, _summary(subdomain, verdicts, pending=pending, in_agreement=in_agreement)
    )


def is_serial_before(serial: int, other: int) -> bool:
    """Tell whether a zone's serial is older than the other one (RFC 1982, section 3.2: they begin anew after 2^32 - 1)."""
    return 0 < (other - serial) % 2**32 < 2**31


def _verdict(
    subdomain: Subdomain,
    desired: Sequence[Record],
    answer: ServerAnswer,
    known: Sequence[tuple[str, int | None]],
    *,
    pending: bool,
    changed_meanwhile: bool,
) -> ServerVerdict:
    if answer.failure is not None or answer.serial is None:
        error = FAILURES.get(answer.failure or "", FAILURES["bad_response"])
        return ServerVerdict(answer, None, error=error)
    difference = describe_difference(subdomain.fqdn, desired, answer.records)
    if difference is None:
        return ServerVerdict(answer, matches=True)
    newer = next(
        (each for each in known if each[1] is not None and is_serial_before(answer.serial, each[1])), None
    )
    explained, why = None, ""
    if newer is not None and answer.server.role == "secondary":
        explained = "behind"
        why = f": its zone has the serial {answer.serial}, older than the {newer[1]} {newer[0]}, so the change is still on its way to it"
    elif pending:
        explained = "pending"
        why = f"; {_pending(subdomain, changed_meanwhile=changed_meanwhile)}, which may be why"
    elif newer is not None:
        why = f": its zone has the serial {answer.serial}, older than the {newer[1]} {newer[0]}, so an older state of the zone was put back"
    return ServerVerdict(answer, matches=False, difference=_sentence(difference + why), explained=explained)


def _pending(subdomain: Subdomain, *, changed_meanwhile: bool) -> str:
    if changed_meanwhile:
        return "the name was changed while the servers were asked"
    if provisioning_failed(subdomain):
        return "the last change of the name could not be published yet"
    return "the last change of the name is not published yet"


def _summary(
    subdomain: Subdomain, verdicts: Sequence[ServerVerdict], *, pending: bool, in_agreement: bool
) -> str:
    if not verdicts:
        return "No name server of the zone is known here; the operator has to look at it."
    if provisioning_failed(subdomain):
        return f"The last change is not published: {_lowered(subdomain.provision_error or '')}"
    if in_agreement:
        return _agreeing(subdomain, len(verdicts))
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
