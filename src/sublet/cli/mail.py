"""`sublet mail …`: the mails in the outbox."""

from typing import Annotated, Any

from typer import Argument, Option

from sublet.accounts.find import find_user
from sublet.cli.options import Limit, OnlyUser, id_argument
from sublet.cli.output import Answer, select_members, table_of
from sublet.cli.session import Session, audited_command, command, new_app
from sublet.db import Tx
from sublet.errors import NotFound
from sublet.mail import letter
from sublet.mail.letter import html_of
from sublet.mail.model import Mail
from sublet.mail.outbox import retry as retry_verb
from sublet.mail.store import list_mails

app = new_app("List mails, and send them again.")

_MEMBERS = (*(name for name in Mail.__struct_fields__ if name != "text"), "state")
"""The members of a mail for --json, without the text, which is confidential."""


@command(app, "list")
def list_(
    session: Session,
    waiting: Annotated[bool, Option("--waiting", help="Only waiting mails.")] = False,
    user: OnlyUser = None,
    limit: Limit = 100,
) -> Answer:
    """List mails, newest first, each with its state."""

    def query(tx: Tx) -> list[Mail]:
        user_id = find_user(tx, user).id if user is not None else None
        return list_mails(tx, waiting=waiting, user_id=user_id, limit=limit)

    mails: list[dict[str, Any]] = [select_members(each, _MEMBERS) for each in session.read(query)]
    columns = ("id", "created_at", ("to", "recipient"), "subject", "state", "attempts", "error")
    return Answer(mails, table=table_of(mails, columns, "There are no such mails."))


@command(app, "preview")
def preview(
    session: Session,
    template: Annotated[
        str | None, Argument(metavar="TEMPLATE", help="The template's name; default: list all templates.")
    ] = None,
    html: Annotated[bool, Option("--html", help="Show the mail as HTML, for a browser.")] = False,
) -> Answer:
    """Show the mail of a template with example values."""
    known = letter.names()
    if template is None:
        return Answer(known, tuple(known))
    if template not in known:
        raise NotFound(f"There is no template {template!r}. Give one of {', '.join(known)}.")
    values = letter.EXAMPLE_VALUES | {
        "public_url": session.settings.public_url or letter.EXAMPLE_VALUES["public_url"]
    }
    message = letter.render(template, **values)
    page = html_of(message.subject, message.text)
    shown = {"subject": message.subject, "text": message.text, "html": page}
    return Answer(shown, (page,) if html else (message.subject, "", message.text))


@audited_command(app, "retry")
def retry(
    session: Session,
    mail: Annotated[int, id_argument("The mail's id.")],
) -> Answer:
    """Send a mail now, even if it was logged or given up."""
    found = session.write(retry_verb, mail)
    lines = session.not_mailed() or ("The running service sends it.",)
    return Answer(select_members(found, _MEMBERS), (f"The mail {found.id} is due now.", *lines))
