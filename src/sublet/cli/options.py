"""Arguments and options that several commands share."""

from typing import Annotated

import typer

Domain = Annotated[str, typer.Argument(metavar="DOMAIN", help="The platform domain's name or id.")]
OnlyDomain = Annotated[
    str | None, typer.Option("--domain", metavar="DOMAIN", help="Only under this platform domain.")
]
User = Annotated[str, typer.Argument(metavar="USER", help="The user's e-mail address or id.")]
OnlyUser = Annotated[
    str | None, typer.Option("--user", metavar="USER", help="Only of this user: e-mail address or id.")
]
SubdomainName = Annotated[str, typer.Argument(metavar="NAME", help="The full name, or the subdomain's id.")]
Limit = Annotated[int, typer.Option(metavar="N", min=1, max=100_000, help="Most rows.")]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; the audit stores it.")]
ReasonForUser = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why; the user reads it too.")
]
