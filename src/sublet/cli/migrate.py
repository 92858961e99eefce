"""`sublet migrate`: bring a registry to the newest schema, beside running processes of an older version where that goes well."""

from typing import TYPE_CHECKING, Annotated

import typer

from sublet.cli.commands import new_app
from sublet.cli.output import Answer
from sublet.cli.session import Session, change, refuse_missing
from sublet.errors import Unavailable
from sublet.schema_revision import why_unusable
from sublet.service.exit_codes import REFUSED

if TYPE_CHECKING:
    from sublet.migrations.plan import Plan

app = new_app()

Check = Annotated[bool, typer.Option("--check", help="Say what would be done, and change nothing.")]
Force = Annotated[
    bool, typer.Option("--force", help="Also beside running processes that can't go on with the new schema.")
]


@change(app, "migrate")
def migrate(session: Session, check: Check = False, force: Force = False) -> Answer:
    """Bring the registry to the newest schema; processes of an older version go on beside it, or it is refused."""
    from sublet.migrations import plan_of, upgrade  # noqa: PLC0415 - Alembic is needed by few commands

    url = session.settings.database_url
    refuse_missing(url)
    plan = plan_of(url)
    if plan.before is None:
        raise Unavailable(why_unusable(None))
    if check:
        return _told(plan)
    _, after = upgrade(url, force=force)
    done = after != plan.before
    line = (
        f"Upgraded the registry from schema {plan.before} to {after}."
        if done
        else f"The registry is up to date (schema {after})."
    )
    return Answer({"before": plan.before, "after": after, "pending": [], "in_the_way": []}, (line,))


def _told(plan: "Plan") -> Answer:
    value = {
        "before": plan.before,
        "after": plan.after,
        "pending": [each.revision for each in plan.migrations],
        "in_the_way": list(plan.in_the_way),
    }
    if not plan.migrations:
        return Answer(value, (f"The registry is up to date (schema {plan.after}).",))
    lines = [f"It would be upgraded from schema {plan.before} to {plan.after}:"]
    lines += [f"- {each.revision}: {each.what}" for each in plan.migrations]
    going_on = plan.migrations[-1].compatible_with
    lines += [
        f"Code of {', '.join(going_on)} goes on with it." if going_on else "No older code goes on with it."
    ]
    lines += [f"In the way: {each}" for each in plan.in_the_way]
    return Answer(value, tuple(lines), exit_code=REFUSED if plan.in_the_way else 0)
