"""`sublet doctor`: every invariant of the registry, asked of the whole database."""

from collections.abc import Iterable

from sublet.accounts.check_accounts import check_accounts, check_audit
from sublet.cli.output import Answer, Table
from sublet.cli.session import Session, new_app, question
from sublet.counted import counted
from sublet.credits.check_ledger import check_ledger
from sublet.db import Tx
from sublet.http.idempotency_store import list_foreign_outcomes
from sublet.invariants import Notice, Violation
from sublet.mail.check_mail import check_mail
from sublet.service.exit_codes import REFUSED
from sublet.subdomains.check_dependents import list_notices
from sublet.subdomains.check_registry import check_registry
from sublet.subdomains.check_sweep import check_sweep
from sublet.subdomains.check_zones import check_watch
from sublet.tickets.check_tickets import check_tickets

app = new_app()

SHOWN_MAX = 20
"""How many violations of one invariant are shown to people; --json has all."""


@question(app, "doctor")
def doctor(session: Session) -> Answer:
    """Check every invariant of the registry; exits 0 when none is broken, 1 when one is. It changes nothing."""

    def ask(tx: Tx) -> tuple[list[Violation], list[Notice]]:
        broken = [*check_all(tx, free_quota=session.settings.free_quota), *check_running(tx)]
        return broken, list_notices(tx)

    violations, notices = session.read(ask)
    value = {"healthy": not violations, "violations": violations, "notices": notices}
    lines = [f"{len(violations)} broken:" if violations else "No invariant is broken."]
    if notices:
        lines.append(f"{counted(len(notices), 'notice')}; they break no invariant:")
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
    for kind, told in kinds.items():
        rows += [(kind, f"{each.object_type} {each.object_id}", each.message) for each in told[:SHOWN_MAX]]
        if len(told) > SHOWN_MAX:
            rows.append((kind, "", f"… and {len(told) - SHOWN_MAX} more"))
    return tuple(rows)


def check_all(tx: Tx, *, free_quota: int) -> list[Violation]:
    """Return every broken invariant of what is stored; `free_quota` is the setting's, in names."""
    return [
        *check_audit(tx),
        *check_accounts(tx),
        *check_ledger(tx),
        *check_registry(tx, free_quota=free_quota),
        *check_tickets(tx),
        *list_foreign_outcomes(tx),
    ]


def check_running(tx: Tx) -> list[Violation]:
    """Return what does not keep up, or is stopped, beyond what is stored: not asked where no worker is meant to run."""
    return [*check_sweep(tx), *check_mail(tx), *check_watch(tx)]
