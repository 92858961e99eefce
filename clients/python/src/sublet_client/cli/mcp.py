"""`mcp`: the MCP server of the package `sublet-mcp`, for the stored account."""

from sublet_client import AsyncClient
from sublet_client.cli.advice import USAGE
from sublet_client.cli.session import Ctl, Stop, command


@command(None, "mcp")
def mcp(ctl: Ctl) -> None:
    """Serve agents over standard input and output (MCP).

    The program of the agent starts it. It needs the package sublet-mcp.
    """
    try:
        from sublet_mcp.server import build_server  # noqa: PLC0415 - a package of its own, which needs this one
    except ModuleNotFoundError as error:
        raise Stop(
            "The MCP server is a package beside this one.",
            "pip install ./clients/mcp, from a clone of the repository",
            USAGE,
        ) from error
    build_server(AsyncClient(*ctl.account(), deadline_seconds=ctl.timeout_seconds)).run("stdio")
