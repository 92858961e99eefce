"""`sublet token …`: the tokens with which users call the API."""

from typing import Annotated, Any

import typer

from sublet.accounts import store
from sublet.accounts.find import find_user
from sublet.accounts.model import SCOPES, Token
from sublet.accounts.tokens import issue_token, revoke_token
from sublet.cli.commands import new_app
from sublet.cli.output import Answer, Table
from sublet.cli.session import Session, change, question
from sublet.cli.user import User
from sublet.db import Tx

app = new_app("Issue and revoke the users' tokens.")


@change(app, "issue")
def issue(
    session: Session,
    user: User,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What the token is for.")],
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", metavar="SCOPE", help=f"Repeated; without it all: {', '.join(SCOPES)}."),
    ] = None,
    expires_in_days: Annotated[
        int | None, typer.Option("--expires-in-days", metavar="N", help="Without it, it does not expire.")
    ] = None,
) -> Answer:
    """Issue a token and show it; this is the only time that it can be seen."""
    issued = session.write(issue_token, user, name, scopes=scope or (), expires_in_days=expires_in_days)
    secret = issued.secret.reveal()
    value = {"token": secret, "email": issued.user.email, **describe(issued.token)}
    # The token alone on stdout, so that it can be taken from there.
    return Answer(value, (secret,))


@question(app, "list")
def list_tokens(session: Session, user: User) -> Answer:
    """List a user's tokens, without their secrets."""

    def ask(tx: Tx) -> list[Token]:
        return store.list_tokens(tx, find_user(tx, user).id)

    tokens = session.read(ask)
    rows = tuple(
        (each.id, each.name, each.scopes, each.expires_at, each.revoked_at, each.last_used_at)
        for each in tokens
    )
    columns = ("id", "name", "scopes", "expires", "revoked", "last used")
    return Answer([describe(each) for each in tokens], table=Table(columns, rows, "There are no tokens."))


@change(app, "revoke")
def revoke(
    session: Session, token_id: Annotated[int, typer.Argument(metavar="ID", help="See `sublet token list`.")]
) -> Answer:
    """Revoke a token; it is worthless from the next request on."""
    token = session.write(revoke_token, token_id)
    return Answer(describe(token), (f"The token {token.id} ({token.name}) is revoked.",))


def describe(token: Token) -> dict[str, Any]:
    """Return a token as --json prints it: without secret and digest."""
    return {
        "id": token.id,
        "user_id": token.user_id,
        "name": token.name,
        "scopes": token.scopes,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "last_used_at": token.last_used_at,
        "created_at": token.created_at,
    }
