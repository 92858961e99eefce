"""`sublet doctor`: check every invariant of the registry."""

from collections.abc import Iterable, Sequence

from sublet.cli.output import Answer, Table
from sublet.cli.session import Session, command, new_app
from sublet.config import Settings, SettingsError
from sublet.counted import counted
from sublet.doctor.checks import UNREADABLE, check_all, check_running, unreadable_row
from sublet.doctor.model import Notice, Violation
from sublet.doctor.notices import find_over_quota, list_notices
from sublet.doctor.zones import ask_built_in_name_servers, check_answers
from sublet.errors import REFUSED
from sublet.schema_revision import refuse_unusable_database
from sublet.service.dns_part import built_in_addresses

app = new_app()

SHOWN_MAX = 20
"""The maximum number of violations of an invariant in the table. --json has all."""


@command(app, "doctor")
def doctor(session: Session) -> Answer:
    """Check every invariant of the registry, and query the name servers of all zones.

    Changes nothing. Exits with 1 if an invariant is broken.
    """
    refuse_unusable_database(session.settings.database_url)
    violations = session.read(lambda tx: [*check_all(tx), *check_running(tx)])
    notices: list[Notice] = []
    try:
        notices += session.read(list_notices)
        notices += session.read(lambda tx: list(find_over_quota(tx, session.settings.free_quota)))
        notices += session.use(lambda db: ask_built_in_name_servers(db, _addresses(session.settings)))
        notices += session.use(lambda db: check_answers(db, session.settings))
    except UNREADABLE as error:
        violations.append(unreadable_row("notices", error))
    value = {"healthy": not violations, "violations": violations, "notices": notices}
    lines = [f"{len(violations)} broken:" if violations else "No invariant is broken."]
    if notices:
        lines.append(f"{counted(len(notices), 'notice')} without a broken invariant:")
    rows = _rows((each.invariant, each) for each in violations) + _rows(
        (each.notice, each) for each in notices
    )
    table = Table(("invariant or notice", "object", "what"), rows) if rows else None
    return Answer(value, tuple(lines), table, exit_code=REFUSED if violations else 0)


def _addresses(settings: Settings) -> Sequence[tuple[str, int]]:
    try:
        return built_in_addresses(settings)
    except SettingsError:
        # The settings have port 0, so the operating system chooses a port that isn't known here.
        return ()


def _rows(found: Iterable[tuple[str, Violation | Notice]]) -> tuple[tuple[str, str, str], ...]:
    kinds: dict[str, list[Violation | Notice]] = {}
    for kind, each in found:
        kinds.setdefault(kind, []).append(each)
    rows = []
    for kind, of_kind in kinds.items():
        rows += [(kind, f"{each.object_type} {each.object_id}", each.message) for each in of_kind[:SHOWN_MAX]]
        if len(of_kind) > SHOWN_MAX:
            rows.append((kind, "", f"… and {len(of_kind) - SHOWN_MAX} more"))
    return tuple(rows)
