"""`sublet zone status`: the problems of each zone, found in the database and in the answers of its name
servers.
"""

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any

import typer
from msgspec import Struct
from msgspec.structs import asdict

from sublet.cli.output import Answer, Table, format_cell, key_value_lines
from sublet.cli.session import Session
from sublet.cli.zone_advice import ADVICE_BY_CAUSE, ADVICE_BY_SYMPTOM
from sublet.cli.zone_probe import ServerProbe, ZoneProbe, probe_zones
from sublet.counted import counted
from sublet.db import Database, Tx
from sublet.errors import REFUSED
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains import zone_store
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.platform_domain import find_platform_domain
from sublet.platform_domains.zone_store import ZoneState
from sublet.primaries import store as publish_store
from sublet.primaries.answer_check import AnswerCheck
from sublet.primaries.find_primary import find_primary
from sublet.primaries.primary import CAUSES
from sublet.primaries.store import Waiting
from sublet.primaries.zone_answers import AnswerProblem
from sublet.structs import replace

WAITING_MAX = timedelta(minutes=1)
"""The maximum time for a name to wait. Names are retried within a minute, so a longer wait means that the
server refuses or no worker runs.
"""
FENCE_READINGS = 3
"""The maximum number of times that an unexpected fence is read, because the publisher may be changing it."""


class StoredZone(Struct, frozen=True):
    """What the database has about a zone.

    `fences` are the values that the registry may have written to the fence.
    """

    zone: PlatformDomain
    state: ZoneState
    waiting: Waiting
    fences: frozenset[str | None]
    now: datetime


class Problem(Struct, frozen=True):
    """A problem: a cause of `primaries.primary.CAUSES` or a symptom of `ADVICE_BY_SYMPTOM`, its start (if
    known), and advice.
    """

    what: str
    detail: str
    since: datetime | None
    what_to_do: str


Domain = Annotated[
    str | None,
    typer.Argument(metavar="DOMAIN", help="The platform domain's name or id. Default: all."),
]


def status(session: Session, domain: Domain = None) -> Answer:
    """Show the state of each zone, and query its name servers. Exits with 1 if there is a problem."""
    stored = session.read(_read_stored, domain)
    answers = _check_answers(session, stored)
    probes = _probe(session, [each for each in stored if each.zone.primary])
    fences: dict[int, set[str | None]] = {each.zone.id: set(each.fences) for each in stored}
    for readings_left in reversed(range(FENCE_READINGS)):
        stored = session.read(_read_stored, domain)
        for each in stored:
            fences.setdefault(each.zone.id, set()).update(each.fences)
        moved = [
            each for each in stored if _fence_state(probes.get(each.zone.id), fences[each.zone.id]) == "moved"
        ]
        if not moved or not readings_left:
            break
        probes |= _probe(session, moved)
    reports = [
        _report(each, probes.get(each.zone.id), fences[each.zone.id], answers.get(each.zone.id, ()))
        for each in stored
    ]
    well = all(report["well"] for report in reports)
    return Answer(
        {"well": well, "zones": reports},
        tuple(line for report in reports for line in _lines(report)),
        _table(reports),
        exit_code=0 if well else REFUSED,
    )


def _read_stored(tx: Tx, domain: str | None) -> list[StoredZone]:
    if domain is None:
        zones = sorted(platform_domain_store.list_platform_domains(tx), key=lambda each: each.domain)
    else:
        zones = [find_platform_domain(tx, domain)]
    states = zone_store.list_zone_states(tx)
    waiting = publish_store.count_waiting(tx)
    return [
        StoredZone(
            each,
            states.get(each.id, ZoneState(each.id)),
            waiting.get(each.id, Waiting()),
            zone_store.list_possible_fences(tx, each.id),
            tx.now,
        )
        for each in zones
    ]


def _probe(session: Session, stored: list[StoredZone]) -> dict[int, ZoneProbe]:
    primary_of = partial(find_primary, session.settings.primaries)
    return asyncio.run(probe_zones([each.zone for each in stored], primary_of))


def _check_answers(session: Session, stored: Sequence[StoredZone]) -> dict[int, tuple[AnswerProblem, ...]]:
    async def check(db: Database) -> dict[int, tuple[AnswerProblem, ...]]:
        answers = AnswerCheck(session.settings, db)
        checked = await asyncio.gather(*(answers.check(each.zone) for each in stored))
        return {each.zone.id: each.problems for each in checked}

    return session.use(check)


def _fence_state(probe: ZoneProbe | None, fences: set[str | None]) -> str:
    """Return "as_left" if the fence has a value that the registry wrote, "moved" if another program changed
    it, else "unknown".
    """
    if probe is None or probe.fence is None:
        return "unknown"
    return "as_left" if probe.fence.value in fences else "moved"


def _stored_fence_state(stored: StoredZone, probe: ZoneProbe | None, fences: set[str | None]) -> str:
    """Return `_fence_state`, or "moved" if the worker found the zone rebuilt and hasn't compared it since."""
    found = _fence_state(probe, fences)
    is_rebuilt = stored.state.rebuilt_at is not None and stored.state.checked_at is not None
    return "moved" if is_rebuilt and found == "as_left" else found


def _report(
    stored: StoredZone,
    probe: ZoneProbe | None,
    fences: set[str | None],
    answers: Sequence[AnswerProblem],
) -> dict[str, Any]:
    """Return the JSON output of a zone. The lines and the table are made from it."""
    state, waiting = stored.state, stored.waiting
    wrong = _find_problems(stored, probe, fences)
    wrong += [_problem_of_symptom(each.cause, each.sentence, None) for each in answers]
    different = {each.server for each in answers if each.cause == "content"}
    primary = None if probe is None else probe.primary
    return {
        "zone": stored.zone.domain,
        "well": not wrong,
        "wrong": [asdict(each) for each in wrong],
        "primary": None if primary is None else asdict(primary),
        "fence": None if probe is None else _stored_fence_state(stored, probe, fences),
        "waiting": waiting.names,
        "oldest_waiting_at": waiting.oldest_at,
        "next_attempt_at": state.next_attempt_at,
        "checked_at": state.checked_at,
        "missing": state.missing,
        "different": state.different,
        "orphaned": state.orphaned,
        "foreign": state.foreign_records,
        "secondaries": []
        if probe is None
        else [asdict(_standing_of(each, different)) for each in probe.secondaries],
    }


def _standing_of(secondary: ServerProbe, different: Collection[str | None]) -> ServerProbe:
    """Return a secondary, with the standing "different" if it has the primary's serial and other records."""
    is_different = secondary.standing == "current" and secondary.server in different
    return replace(secondary, standing="different") if is_different else secondary


def _drift_problems(state: ZoneState) -> list[Problem]:
    """Return a problem if the last check found wrong records of the registry."""
    counts = (("missing", state.missing), ("different", state.different), ("orphaned", state.orphaned))
    detail = ", ".join(f"{count} {kind}" for kind, count in counts if count)
    return (
        [_problem_of_symptom("drift", f"the last check found {detail}", state.checked_at)] if detail else []
    )


def _find_problems(stored: StoredZone, probe: ZoneProbe | None, fences: set[str | None]) -> list[Problem]:
    """Return the problems, worst first."""
    state, waiting = stored.state, stored.waiting
    wrong = []
    if state.problem is not None:
        wrong.append(_problem_of_cause(state.problem, state.problem_detail, state.problem_at))
    wrong += _watch_problems(state, probe)
    fence = _stored_fence_state(stored, probe, fences)
    if fence == "moved" and state.problem != "fence":
        wrong.append(_problem_of_cause("fence", None, state.rebuilt_at))
    elif fence == "as_left" and state.rebuilt_at is not None:
        wrong.append(
            _problem_of_symptom(
                "unchecked",
                "the zone on this server has not been compared with the registry",
                state.rebuilt_at,
            )
        )
    if waiting.oldest_at is not None and stored.now - waiting.oldest_at > WAITING_MAX:
        wrong.append(
            _problem_of_symptom(
                "waiting",
                f"{counted(waiting.names, 'name')} {'waits' if waiting.names == 1 else 'wait'}",
                waiting.oldest_at,
            )
        )
    wrong += _drift_problems(state)
    if state.repair_stopped_at is not None:
        reason = state.repair_stopped_reason or "the repair waits for the operator"
        wrong.append(_problem_of_symptom("repair_stopped", reason, state.repair_stopped_at))
    for each in () if probe is None else probe.secondaries:
        if each.standing in {"away", "behind", "ahead"}:
            detail = f"{each.server} is {each.standing}: {each.detail}"
            wrong.append(_problem_of_symptom(f"secondary_{each.standing}", detail, None))
    return wrong


def _watch_problems(state: ZoneState, probe: ZoneProbe | None) -> list[Problem]:
    """Return why the zone can't be queried now, and why the worker can't check it.

    Causes equal to `state.problem` are left out.
    """
    causes: dict[str, str | None] = {}
    if probe is not None and probe.cause is not None:
        causes[probe.cause] = probe.detail
    is_over = (
        probe is not None and probe.cause is None and state.watch_problem in {"unreachable", "no_answer"}
    )
    if state.watch_problem is not None and not is_over:
        causes.setdefault(state.watch_problem, state.watch_problem_detail)
    causes.pop(state.problem or "", None)
    return [
        _problem_of_symptom(cause, detail or "", None)
        if cause in ADVICE_BY_SYMPTOM
        else _problem_of_cause(cause, detail, None)
        for cause, detail in causes.items()
    ]


def _problem_of_cause(cause: str, detail: str | None, since: datetime | None) -> Problem:
    meaning = CAUSES.get(cause, cause)
    return Problem(
        cause, f"{meaning} ({detail})" if detail else meaning, since, ADVICE_BY_CAUSE.get(cause, "")
    )


def _problem_of_symptom(symptom: str, detail: str, since: datetime | None) -> Problem:
    return Problem(symptom, detail, since, ADVICE_BY_SYMPTOM[symptom])


def _lines(report: dict[str, Any]) -> list[str]:
    lines = [
        f"{report['zone']}: {'no problems' if report['well'] else counted(len(report['wrong']), 'problem')}"
    ]
    for each in report["wrong"]:
        since = "" if each["since"] is None else f", since {format_cell(each['since'])}"
        lines += [f"  {each['what']}: {each['detail']}{since}", f"    {each['what_to_do']}"]
    fence = {"as_left": "as expected", "moved": "changed by another program", "unknown": "unknown"}
    shown: dict[str, Any] = {"waiting": _waiting_text(report)}
    if report["primary"] is not None:
        shown |= {"fence": fence[report["fence"]], "next_attempt": report["next_attempt_at"]}
    else:
        shown |= {"server": "the built-in name server; see /readyz"}
    if report["checked_at"] is not None:
        counts = (
            f"{report['missing']} missing, {report['different']} different, {report['orphaned']} orphaned"
        )
        shown["last_check"] = f"{format_cell(report['checked_at'])}: {counts}, {report['foreign']} foreign"
    elif report["primary"] is not None:
        shown["last_check"] = "never"
    return [
        *lines,
        *(f"  {line}" for line in key_value_lines(**{k: v for k, v in shown.items() if v is not None})),
    ]


def _waiting_text(report: dict[str, Any]) -> str:
    if not report["waiting"]:
        return "no name"
    return (
        f"{counted(report['waiting'], 'name')}, the oldest since {format_cell(report['oldest_waiting_at'])}"
    )


def _table(reports: list[dict[str, Any]]) -> Table | None:
    rows: list[tuple[Any, ...]] = []
    for report in reports:
        servers = [report["primary"], *report["secondaries"]] if report["primary"] is not None else []
        for number, each in enumerate(servers):
            where = each["address"] and f"{each['address']}, port {each['port']}"
            role = "secondary" if number else "primary"
            shown = (each["standing"], each["serial"], each["detail"])
            rows.append((report["zone"], each["server"], role, where, *shown))
    columns = ("zone", "server", "role", "address", "standing", "serial", "detail")
    return Table(columns, tuple(rows)) if rows else None
