"""What all commands share on the command line: plain help, and arguments that are numbers below 0."""

import re
from typing import Any

import typer
from typer.core import TyperCommand

_BELOW_ZERO = re.compile(r"-[0-9]+")


def new_app(about: str | None = None) -> typer.Typer:
    """Return an app without commands; `about` describes a noun with several verbs, a noun with one has that one's docstring.

    Its help is plain text: the tables of `rich` cut off names and values at 80 columns.
    """
    return typer.Typer(help=about, no_args_is_help=about is not None, rich_markup_mode=None)


class CommandWithNumbers(TyperCommand):
    """A command that takes `-5` as the argument that it is meant as, not as an option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; only with a number below 0 in it, an unknown option is taken for an argument."""
        ctx.ignore_unknown_options = any(_BELOW_ZERO.fullmatch(each) for each in args)
        return super().parse_args(ctx, args)
