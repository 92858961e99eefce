"""`sublet mail …`: the outbox, and what is stuck in it."""

from typing import Annotated, Any

import typer

from sublet.accounts.find import find_user
from sublet.cli.commands import new_app
from sublet.cli.output import Answer, Table
from sublet.cli.session import Session, change, question
from sublet.db import Tx
from sublet.ids import MAX_ID
from sublet.mail.model import Mail
from sublet.mail.outbox import retry as retry_verb
from sublet.mail.store import list_mails

app = new_app("See what is mailed, and send it again.")

_SHOWN = (
    "id", "reference", "user_id", "recipient", "subject", "state", "attempts", "next_attempt_at", "error", "sent_at",
    "logged_at", "given_up_at", "created_at",
)  # fmt: skip


def _describe(mail: Mail) -> dict[str, Any]:
    """Return a mail as --json prints it; its text is the user's to read."""
    return {name: getattr(mail, name) for name in _SHOWN}


@question(app, "list")
def list_(
    session: Session,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only those that wait to be sent.")] = False,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="USER", help="Only those to this user: e-mail address or id."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="Most rows.")] = 100,
) -> Answer:
    """List mails, newest first, with what became of each."""

    def ask(tx: Tx) -> list[Mail]:
        user_id = find_user(tx, user).id if user is not None else None
        return list_mails(tx, waiting=waiting, user_id=user_id, limit=limit)

    mails = session.read(ask)
    rows = tuple(
        (
            each.id,
            each.created_at,
            each.recipient,
            each.subject,
            each.state,
            each.attempts,
            each.error,
        )
        for each in mails
    )
    columns = ("id", "created", "to", "subject", "state", "attempts", "error")
    return Answer([_describe(each) for each in mails], table=Table(columns, rows, "There are no such mails."))


@change(app, "retry")
def retry(
    session: Session,
    mail: Annotated[int, typer.Argument(metavar="ID", help="The mail's id.", min=1, max=MAX_ID)],
) -> Answer:
    """Send a mail now instead of at its next attempt, one that was logged or given up too."""
    found = session.write(retry_verb, mail)
    return Answer(_describe(found), (f"The mail {found.id} is sent as soon as the service runs.",))
