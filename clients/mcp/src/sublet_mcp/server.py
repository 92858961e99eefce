"""The server: tools for the names of the user whose token it has, over stdin and stdout."""

import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal

import msgspec
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from sublet_client import ApiError, AsyncClient, GlueEntry, SubdomainNotFound, SubletError

INSTRUCTIONS = """Names under the platform domains of a registry. Nothing is paid unless you give max_credits.
Before that, ask for the price with `quote`, tell the user, and give exactly what the user allows."""
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
SETS = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)
REMOVES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False
)
Mode = Literal["free", "plus", "premium", "special"]
Answer = dict[str, Any]


def build_server(client: AsyncClient) -> MCPServer[None]:
    """Return the server, which closes the client when it ends."""

    @asynccontextmanager
    async def close_client(_: MCPServer[None]) -> AsyncGenerator[None, None]:
        async with client:
            yield

    server = MCPServer("sublet", instructions=INSTRUCTIONS, lifespan=close_client, log_level="WARNING")
    _add_questions(server, client)
    _add_changes(server, client)
    _add_payments(server, client)
    return server


def _add_questions(server: MCPServer[None], client: AsyncClient) -> None:
    """Add the tools that change nothing."""

    @server.tool(annotations=READS)
    async def account() -> Answer:
        """Show the user, the balance in credits, the packages of credits, and the number of free names that are left."""
        with _refusals():
            me, credit, free = (
                await client.account.me(),
                await client.credits.get(),
                await client.account.free_subdomains(),
            )
            return {"user": _plain(me.user), "credits": _plain(credit), "free_names": _plain(free)}

    @server.tool(annotations=READS)
    async def platform_domains() -> Answer:
        """List the domains under which names can be registered, with their prices in credits and their rules."""
        with _refusals():
            return {"platform_domains": [_plain(each) async for each in client.platform_domains.list()]}

    @server.tool(annotations=READS)
    async def list_names(contains: str | None = None, *, in_trash: bool = False, limit: int = 100) -> Answer:
        """List the user's names, newest first, with status and expiry. `is_complete` is false if there are more than `limit`."""
        with _refusals():
            found: list[Answer] = []
            status = "trashed" if in_trash else None
            async for each in client.subdomains.list(q=contains, status=status):
                if len(found) == limit:
                    return {"names": found, "is_complete": False}
                found.append(
                    {"fqdn": each.fqdn, "status": each.status, "expires_at": each.expires_at.isoformat()}
                )
            return {"names": found, "is_complete": True}

    @server.tool(annotations=READS)
    async def get_name(fqdn: str) -> Answer:
        """Show a name of the user: delegation, status in the DNS, expiry, automatic renewal, and whether its name servers work."""
        with _refusals():
            return {
                "name": _plain(await client.subdomains.get(fqdn)),
                "auto_renew": _plain(await client.subdomains.get_auto_renew(fqdn)),
                "health": _plain(await client.subdomains.get_health(fqdn)),
            }

    @server.tool(annotations=READS)
    async def quote(fqdn: str) -> Answer:
        """Show what a name costs in credits now: its renewal if the user holds it, else its registration by mode. Nothing is done or paid."""
        with _refusals():
            balance = (await client.credits.get()).credit_balance
            try:
                held = await client.subdomains.get(fqdn)
            except SubdomainNotFound:
                return {**_plain(await client.subdomains.availability(fqdn)), "balance": balance}
            renewal = await client.subdomains.get_auto_renew(fqdn)
            return {
                "fqdn": held.fqdn,
                "is_held": True,
                "renewal_available": held.renewal_available,
                "renewal_price_credits": renewal.renewal_price_credits,
                "balance": balance,
            }


def _add_changes(server: MCPServer[None], client: AsyncClient) -> None:
    """Add the tools that change something and cost nothing."""

    @server.tool(annotations=SETS)
    async def set_delegation(
        fqdn: str, nameservers: list[str], ds_records: list[str], glue: dict[str, list[str]] | None = None
    ) -> Answer:
        """Replace nameservers, DS records (zone-file text) and glue (addresses by nameserver) of a name, and wait until the DNS has them.

        What is not given is removed: look with get_name first.
        """
        with _refusals():
            await client.subdomains.update_nameservers(
                fqdn, nameservers=nameservers, ds_records=ds_records, glue=_glue(glue)
            )
            return _plain(await client.subdomains.wait(fqdn))

    @server.tool(annotations=SETS)
    async def set_auto_renew(fqdn: str, *, enabled: bool, max_credits: int = 0) -> Answer:
        """Turn the automatic renewal of a name on or off. Each renewal may then cost up to max_credits, so ask the user before."""
        with _refusals():
            most = max_credits if enabled else None
            return _plain(await client.subdomains.set_auto_renew(fqdn, enabled, max_credits=most))

    @server.tool(annotations=REMOVES)
    async def trash_name(fqdn: str) -> Answer:
        """Delete a name: it leaves the DNS at once. For a while restore_name brings it back. Ask the user before."""
        with _refusals():
            return _plain(await client.subdomains.delete(fqdn))

    @server.tool(annotations=ADDS)
    async def open_ticket(subject: str, message: str, fqdn: str | None = None) -> Answer:
        """Write to the operator of the registry, perhaps about a name of the user."""
        with _refusals():
            return _plain(await client.tickets.open(subject, message, fqdn=fqdn))


def _add_payments(server: MCPServer[None], client: AsyncClient) -> None:
    """Add the tools that may cost credits. Without max_credits they do what is free, and refuse the rest with its price."""

    @server.tool(annotations=ADDS)
    async def register_name(
        fqdn: str,
        nameservers: list[str] | None = None,
        ds_records: list[str] | None = None,
        glue: dict[str, list[str]] | None = None,
        registration_mode: Mode | None = None,
        max_credits: int = 0,
    ) -> Answer:
        """Register a name, and wait until the DNS has it. If it costs more than max_credits, nothing happens and the answer is the price."""
        with _refusals():
            done = await client.subdomains.register(
                fqdn,
                nameservers=nameservers,
                ds_records=ds_records,
                glue=_glue(glue),
                registration_mode=registration_mode,
                **_payment(max_credits),
            )
            return {**_plain(done), "subdomain": _plain(await client.subdomains.wait(fqdn))}

    @server.tool(annotations=ADDS)
    async def renew_name(fqdn: str, max_credits: int = 0) -> Answer:
        """Renew a name for one more term. If it costs more than max_credits, nothing happens and the answer is the price."""
        with _refusals():
            return _plain(await client.subdomains.renew(fqdn, **_payment(max_credits)))

    @server.tool(annotations=ADDS)
    async def restore_name(fqdn: str, max_credits: int = 0) -> Answer:
        """Bring a name back from the trash. That is free within its term; else, if it costs more than max_credits, the answer is the price."""
        with _refusals():
            return _plain(await client.subdomains.restore(fqdn, **_payment(max_credits)))


@contextmanager
def _refusals() -> Generator[None, None, None]:
    """Turn the errors of the client into errors of a tool.

    Raises:
        ToolError: the service refused, gave no answer, or is not done in time.
    """
    try:
        yield
    except ApiError as refusal:
        raise ToolError(_sentences(refusal)) from refusal
    except SubletError as error:
        raise ToolError(str(error)) from error


def _sentences(refusal: ApiError) -> str:
    """Return the sentence of a refusal, those of its fields, and what a payment would need."""
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
    return "\n".join(lines)


def _payment(max_credits: int) -> dict[str, Any]:
    """Return the members that confirm a payment; none if nothing may be paid, so that a price is refused with its quote."""
    return {"confirm": True, "max_credits": max_credits} if max_credits > 0 else {}


def _glue(glue: dict[str, list[str]] | None) -> list[GlueEntry]:
    return [
        GlueEntry(host=host, ipv6=each) if ":" in each else GlueEntry(host=host, ipv4=each)
        for host, addresses in (glue or {}).items()
        for each in addresses
    ]


def _plain(result: msgspec.Struct) -> Answer:
    """Return a result of the client as JSON has it."""
    return dict(msgspec.to_builtins(result))


def main() -> None:
    """Run the server for the registry in `SUBLET_URL` and the token in `SUBLET_TOKEN`."""
    try:
        client = AsyncClient.from_environment()
    except ValueError as error:
        sys.exit(f"sublet-mcp: {error}")
    build_server(client).run("stdio")
