"""The console script `subletctl`. It imports only the module of the command that is called."""

import os
import sys
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import click

from sublet_client.cli.advice import EXIT_CODES, INTERRUPTED

COMMANDS = {
    "login": ("login:login", "Sign in with a browser, or store a token."),
    "logout": ("login:logout", "Forget a stored token."),
    "whoami": ("login:whoami", "Show the account and the token."),
    "profiles": ("login:profiles", "List the stored accounts."),
    "signup": ("login:signup", "Open an account."),
    "names": ("names:names", "List, show and search names, and look for free ones."),
    "register": ("register:register", "Register a name."),
    "ns": ("delegation:ns", "Show and set nameservers and glue."),
    "set": ("delegation:set_", "The same as `ns set`."),
    "ds": ("delegation:ds", "Show and change DS records."),
    "records": ("records:records", "Show and change the records of a name without nameservers."),
    "keys": ("keys:keys", "Keys for certbot and other programs that speak DNS UPDATE."),
    "health": ("delegation:health", "Check whether a delegation works."),
    "renew": ("register:renew", "Renew names."),
    "auto-renew": ("register:auto_renew", "Show or set automatic renewal."),
    "trash": ("register:trash", "Move names to the trash."),
    "restore": ("register:restore", "Get names back from the trash."),
    "transfer": ("transfers:transfer", "Give names to other people, and take them."),
    "export": ("many:export", "Write many names as YAML."),
    "apply": ("many:apply", "Make names what a YAML file says: plan, confirm, apply."),
    "watch": ("watch:watch", "Show changes of names when they happen."),
    "domains": ("account:domains", "List the platform domains with their prices."),
    "credits": ("account:credits_", "Balance, history and packages of credits."),
    "tickets": ("tickets:tickets", "Ask for support."),
    "tokens": ("tokens:tokens", "Create, rotate and revoke tokens."),
    "organizations": ("organizations:organizations", "Organizations and their members."),
    "invitation": ("organizations:invitation", "Invitations of organizations to you."),
    "activity": ("account:activity", "Show what happened in the account."),
    "mcp": ("mcp:mcp", "Serve an agent over standard input and output."),
    "account": ("account:account", "Quota, reminders, export and deletion of the account."),
}
"""The commands in the order of `subletctl --help`, each with its module in this folder
and its line of help.
"""


class Commands(click.Group):
    """The commands, each imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the signature is click's
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with this name, or None."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        try:
            found: click.Command = getattr(import_module(f"sublet_client.cli.{module}"), name)
        except KeyboardInterrupt:  # click would end with the exit code of a refusal
            ctx.exit(INTERRUPTED)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, help_line) in COMMANDS.items()])


def _exit_codes() -> str:
    return "Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items()) + "."


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["--help", "-h"]},
    help="The names, credits and tickets of an account at a registry that runs Sublet.\n\nEach command "
    "takes --profile, --timeout, and "
    "--json FIELDS, --template or --quiet for other programs. SUBLET_URL and SUBLET_TOKEN come before what "
    "is stored. Nothing is paid without a "
    "question, or --yes --max-credits N.",
    epilog=_exit_codes(),
)
@click.version_option(metadata.version("sublet-client"), prog_name="subletctl")
def root() -> None:
    """Hold the commands."""


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line, and exit."""
    # Python has None for a stream that the caller has closed, such as with `>&-`.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - for the whole run
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")  # a change is no failure if its answer can't be shown
    return root.main(arguments, prog_name="subletctl")


if __name__ == "__main__":
    main()
