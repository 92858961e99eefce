"""Refusals of the API as errors of tools: its sentence, and what to do next."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn

from mcp.server.mcpserver.exceptions import ToolError

from sublet_client import ApiError, SubletError


@contextmanager
def refusals() -> Generator[None, None, None]:
    """Turn the errors of the client into errors of a tool.

    Raises:
        ToolError: the service refused, gave no answer, or is not done in time.
    """
    try:
        yield
    except ApiError as refusal:
        _refuse(refusal)
    except SubletError as error:
        raise ToolError(str(error)) from error


def _refuse(refusal: ApiError) -> NoReturn:
    lines = [
        f"{refusal.message} ({refusal.code})",
        *(f"{each.field}: {each.message}" for each in refusal.errors),
    ]
    if refusal.raw_quote:
        price, balance = refusal.raw_quote["price"], refusal.raw_quote["balance"]
        lines.append(
            f"It costs {price} credits, and the balance is {balance}. Nothing was paid. "
            f"Ask the user; if they agree, call again with max_credits={price}."
        )
    raise ToolError("\n".join(lines)) from refusal
