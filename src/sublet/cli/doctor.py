"""`sublet doctor`: every invariant of the registry, asked of the whole database."""

import typer

from sublet.cli.output import Answer, Table
from sublet.cli.session import REFUSED, Session, question
from sublet.credits.check_ledger import check_ledger
from sublet.db import Tx
from sublet.invariants import Violation
from sublet.subdomains.check_registry import check_registry
from sublet.subdomains.check_sweep import check_sweep

app = typer.Typer()


@question(app, "doctor")
def doctor(session: Session) -> Answer:
    """Check every invariant of the registry; exits 0 when none is broken, 1 when one is. It changes nothing."""

    def ask(tx: Tx) -> list[Violation]:
        return [
            *check_ledger(tx),
            *check_registry(tx, free_quota=session.settings.free_quota),
            *check_sweep(tx),
        ]

    violations = session.read(ask)
    value = {"healthy": not violations, "violations": violations}
    if not violations:
        return Answer(value, ("No invariant is broken.",))
    rows = tuple(
        (each.invariant, f"{each.object_type} {each.object_id}", each.message) for each in violations
    )
    lines = (f"{len(violations)} broken:",)
    return Answer(value, lines, Table(("invariant", "object", "what"), rows), exit_code=REFUSED)
