"""`sublet token …`: the users' tokens for the API."""

import sys
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from sublet.accounts import store
from sublet.accounts.find import find_member, find_user
from sublet.accounts.model import Token
from sublet.accounts.tokens.issue import issue_token, revoke_token, show_token
from sublet.cli.options import User as UserName
from sublet.cli.options import id_argument, invalid_option
from sublet.cli.output import Answer, as_object, key_value_lines, table_of
from sublet.cli.session import Session, audited_command, command, new_app
from sublet.counted import counted
from sublet.db import Tx
from sublet.registry.revoke_leaked import revoke_leaked
from sublet.restrictions import SCOPES

app = new_app("Issue, show and revoke the users' tokens.")

TokenId = Annotated[int, id_argument("See `sublet token list`.")]


@audited_command(app, "issue")
def issue(
    session: Session,
    user: UserName,
    name: Annotated[str, Option(metavar="NAME", help="A name for the token, such as its purpose.")],
    scope: Annotated[
        list[str] | None,
        Option(
            metavar="SCOPE",
            help=f"A scope of the token: {', '.join(SCOPES)}. May be given several times. Default: all.",
        ),
    ] = None,
    only_name: Annotated[
        list[str] | None,
        Option(
            metavar="NAME",
            help="Only for this name, or for all names below a domain (*.DOMAIN). May be given several "
            "times.",
        ),
    ] = None,
    only_domain: Annotated[
        list[str] | None,
        Option(metavar="DOMAIN", help="Only for names of this platform domain. May be given several times."),
    ] = None,
    only_network: Annotated[
        list[str] | None,
        Option(
            metavar="CIDR", help="Only from this network, such as 192.0.2.0/24. May be given several times."
        ),
    ] = None,
    only_record: Annotated[
        list[str] | None,
        Option(
            metavar="OWNER",
            help="Only for the records at this owner; for a certificate _acme-challenge, with .* behind it "
            "for those below. "
            "May be given several times.",
        ),
    ] = None,
    daily_credits: Annotated[
        int | None,
        Option(metavar="N", help="The maximum number of credits that it can spend within 24 hours."),
    ] = None,
    expires_in_days: Annotated[
        int | None, Option(metavar="N", help="The token expires after this many days; default: never.")
    ] = None,
) -> Answer:
    """Issue a token and print its secret, which can't be shown again."""
    issued = session.write(
        issue_token,
        user,
        name,
        scopes=scope or (),
        names=only_name or None,
        domains=only_domain or None,
        networks=only_network or None,
        record_names=only_record or None,
        daily_credits=daily_credits,
        expires_in_days=expires_in_days,
    )
    secret = issued.secret.reveal()
    value = {"token": secret, "email": issued.user.email, **_describe(issued.token)}
    return Answer(value, (secret,))  # only the secret, for scripts


def _describe(token: Token) -> dict[str, Any]:
    shown = as_object(token)
    del shown["budget_token_id"]
    return shown


_RESTRICTIONS = ("names", "domains", "networks", "record_names", "daily_credits")


@command(app, "list")
def list_tokens(session: Session, user: UserName) -> Answer:
    """List a user's tokens, without their secrets."""
    tokens = session.read(lambda tx: store.list_tokens(tx, find_user(tx, user).id))
    columns = ("id", "name", "scopes", *_RESTRICTIONS, "expires_at", "revoked_at", "last_used_at")
    return Answer(
        [_describe(each) for each in tokens], table=table_of(tokens, columns, "There are no tokens.")
    )


@command(app, "show")
def show(session: Session, token_id: TokenId) -> Answer:
    """Show a token with its restrictions and its last use, without its secret."""

    def query(tx: Tx) -> tuple[Token, str]:
        token = show_token(tx, token_id)
        return token, find_member(tx, token.user_id).user.email

    token, email = session.read(query)
    value = _describe(token)
    return Answer({**value, "email": email}, key_value_lines(user=email, **value))


@audited_command(app, "revoke")
def revoke(session: Session, token_id: TokenId) -> Answer:
    """Revoke a token. The API refuses all further requests with it."""
    token = session.write(revoke_token, token_id)
    return Answer(_describe(token), (f"The token {token.id} ({token.name}) is revoked.",))


@audited_command(app, "revoke-leaked")
def leaked(
    session: Session,
    file: Annotated[str, Argument(metavar="FILE", help="A report, such as text or JSON; - for stdin.")],
) -> Answer:
    """Revoke the tokens in a report of leaked secrets, and all that were created or rotated with them.

    Their users get a mail.
    """
    report = session.write(revoke_leaked, _read_report(file))
    revoked = [
        {"id": each.token.id, "name": each.token.name, "email": each.user.email, "leaked": each.leaked}
        for each in report.revoked
    ]
    emails = sorted({each.user.email for each in report.revoked})
    line = f"The report has {counted(report.found, 'secret')}. {counted(len(revoked), 'token')} revoked."
    prefix = (
        "Mailed to"
        if session.settings.mail_transport != "log"
        else "Not mailed, because mail_transport is log, to"
    )
    lines = [line, *([f"{prefix} {', '.join(emails)}."] if emails else [])]
    table = table_of(revoked, ("id", "name", "email", "leaked")) if revoked else None
    return Answer({"found": report.found, "revoked": revoked, "emails": emails}, tuple(lines), table)


def _read_report(file: str) -> str:
    """Return the text of a report. Invalid UTF-8 is replaced, because secrets are ASCII.

    Raises:
        ValidationFailed: the file can't be read.
    """
    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise invalid_option("file", f"{file} can't be read: {error.strerror}. Check the path.") from None
    return raw.decode("utf-8", "replace")
