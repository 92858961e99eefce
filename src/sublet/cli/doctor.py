"""`sublet doctor`: every invariant of the registry, asked of the whole database."""

from sublet.accounts.check_accounts import check_accounts, check_audit
from sublet.cli.commands import new_app
from sublet.cli.output import Answer, Table
from sublet.cli.session import Session, question
from sublet.credits.check_ledger import check_ledger
from sublet.db import Tx
from sublet.http.check_store import list_foreign_outcomes
from sublet.invariants import Violation
from sublet.mail.check_mail import check_mail
from sublet.service.exit_codes import REFUSED
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

    def ask(tx: Tx) -> list[Violation]:
        return [*check_all(tx, free_quota=session.settings.free_quota), *check_running(tx)]

    violations = session.read(ask)
    value = {"healthy": not violations, "violations": violations}
    if not violations:
        return Answer(value, ("No invariant is broken.",))
    rows = _rows(violations)
    lines = (f"{len(violations)} broken:",)
    return Answer(value, lines, Table(("invariant", "object", "what"), rows), exit_code=REFUSED)


def _rows(violations: list[Violation]) -> tuple[tuple[str, str, str], ...]:
    kinds: dict[str, list[Violation]] = {}
    for each in violations:
        kinds.setdefault(each.invariant, []).append(each)
    rows = []
    for invariant, found in kinds.items():
        rows += [
            (invariant, f"{each.object_type} {each.object_id}", each.message) for each in found[:SHOWN_MAX]
        ]
        if len(found) > SHOWN_MAX:
            rows.append((invariant, "", f"… and {len(found) - SHOWN_MAX} more"))
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
