"""`sublet doctor`: check every invariant of the registry."""

from collections.abc import Iterable

from sublet.cli.output import Answer, Table
from sublet.cli.session import Session, command, new_app
from sublet.config import SettingsError
from sublet.counted import counted
from sublet.db import Tx
from sublet.doctor.checks import check_all, check_running
from sublet.doctor.model import Notice, Violation
from sublet.doctor.notices import list_notices
from sublet.doctor.zones import ask_built_in_name_servers, check_answers
from sublet.errors import REFUSED
from sublet.service.dns_part import built_in_addresses

app = new_app()

SHOWN_MAX = 20
"""The maximum number of violations of an invariant in the table. --json has all."""


@command(app, "doctor")
def doctor(session: Session) -> Answer:
    """Check every invariant of the registry, and query the name servers of all zones.

    Changes nothing. Exits with 1 if an invariant is broken.
    """

    def query(tx: Tx) -> tuple[list[Violation], list[Notice]]:
        broken = [*check_all(tx, free_quota=session.settings.free_quota), *check_running(tx)]
        is_readable = all(each.invariant != "rows_are_readable" for each in broken)
        return broken, list_notices(tx) if is_readable else []

    violations, notices = session.read(query)
    try:
        addresses = built_in_addresses(session.settings)
    except SettingsError:
        # The settings have port 0, so the operating system chooses a port that isn't known here.
        addresses = ()
    notices += session.use(lambda db: ask_built_in_name_servers(db, addresses))
    notices += session.use(lambda db: check_answers(db, session.settings))
    value = {"healthy": not violations, "violations": violations, "notices": notices}
    lines = [f"{len(violations)} broken:" if violations else "No invariant is broken."]
    if notices:
        lines.append(f"{counted(len(notices), 'notice')} without a broken invariant:")
    rows = _rows((each.invariant, each) for each in violations) + _rows(
        (each.notice, each) for each in notices
    )
    table = Table(("invariant or notice", "object", "what"), rows) if rows else None
    return Answer(value, tuple(lines), table, exit_code=REFUSED if violations else 0)


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
