"""The server: tools for the names of the user whose token it has, over stdin and stdout."""

import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any, Literal

import msgspec
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import AfterValidator, Field

from sublet_client import ApiError, AsyncClient, SubdomainNotFound, SubletError
from sublet_client.models import Subdomain
from sublet_client.spelling import (
    CREDITS_MAX,
    RECORD_TYPES,
    glue_entry,
    parse_address,
    parse_ds,
    parse_host,
    parse_name,
    parse_record_type,
)
from sublet_mcp.refusals import ToolServer, sentences_of

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
Answer = dict[str, Any]
Mode = Annotated[
    Literal["free", "plus", "premium", "special"] | None,
    Field(description="The mode of the registration. Left out: free while the quota lasts, then plus."),
]
Name = Annotated[str, AfterValidator(parse_name)]
Host = Annotated[str, AfterValidator(parse_host)]
Address = Annotated[str, AfterValidator(parse_address)]
Fqdn = Annotated[Name, Field(description="The full name, such as blog.example.net.")]
Nameservers = Annotated[
    list[Host] | None,
    Field(description="The names of all nameservers. Left out: as they are; an empty list removes all."),
]
DsRecords = Annotated[
    list[str] | None,
    Field(
        description="All DS records, each as in a zone file: 2371 13 2 "
        "1f98…, or a DNSKEY. Left out: as they are; "
        "an empty list removes all."
    ),
]
Glue = Annotated[
    dict[Host, list[Address]] | None,
    Field(
        description="All IP addresses of each nameserver at or below the "
        "name, by nameserver. Left out: as they "
        "are; an empty object removes all."
    ),
]
MaxCredits = Annotated[
    int,
    Field(
        ge=0,
        le=CREDITS_MAX,
        description="The most that it may cost in credits, as the user allows. 0: only if it is free.",
    ),
]
RecordOwner = Annotated[
    str,
    Field(
        description="The owner, relative to the name: @ for the name "
        "itself, www, _acme-challenge, * for all that "
        "don't exist."
    ),
]
RecordType = Annotated[
    str, AfterValidator(parse_record_type), Field(description=f"The type: one of {', '.join(RECORD_TYPES)}.")
]
RecordValues = Annotated[
    list[str],
    Field(
        min_length=1,
        description="All values at this owner and of this type, as in a zone "
        "file: 192.0.2.1, 10 mail.example.org. "
        "A TXT value needs no quotation marks.",
    ),
]
Ttl = Annotated[int, Field(ge=60, le=86_400, description="The TTL in seconds.")]
Ticket = Annotated[str, Field(description="The number or the id of the ticket.")]
Message = Annotated[str, Field(description="The text of the message.")]


def build_server(client: AsyncClient) -> MCPServer[None]:
    """Return the server, which closes the client when it ends."""

    @asynccontextmanager
    async def close_client(_: MCPServer[None]) -> AsyncGenerator[None, None]:
        async with client:
            yield

    server = ToolServer("sublet", instructions=INSTRUCTIONS, lifespan=close_client, log_level="WARNING")
    _add_questions(server, client)
    _add_changes(server, client)
    _add_payments(server, client)
    _add_tickets(server, client)
    return server


def _add_questions(server: MCPServer[None], client: AsyncClient) -> None:
    """Add the tools that change nothing."""

    @server.tool(annotations=READS)
    async def account() -> Answer:
        """Show the user, the balance in credits, the packages of credits, and the number of free names that
        are left.
        """
        with _refusals():
            me, credit, free = (
                await client.account.me(),
                await client.credits.get(),
                await client.account.free_subdomains(),
            )
            return {"user": _plain(me.user), "credits": _plain(credit), "free_names": _plain(free)}

    @server.tool(annotations=READS)
    async def platform_domains() -> Answer:
        """List the domains under which names can be registered, with their prices in
        credits and their rules.
        """
        with _refusals():
            return {"platform_domains": [_plain(each) async for each in client.platform_domains.list()]}

    @server.tool(annotations=READS)
    async def list_names(
        contains: Annotated[str | None, Field(description="Only names that contain this text.")] = None,
        *,
        in_trash: Annotated[bool, Field(description="The names in the trash instead of the others.")] = False,
        limit: Annotated[int, Field(ge=1, description="The most names to return.")] = 100,
    ) -> Answer:
        """List the user's names, newest first, with status and expiry.

        `is_complete` is false if there are more than `limit`.
        """
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
    async def get_name(fqdn: Fqdn) -> Answer:
        """Show a name of the user: delegation, status in the DNS, expiry, automatic renewal, and whether its
        name servers work.
        """
        with _refusals():
            return {
                "name": _plain(await client.subdomains.get(fqdn)),
                "auto_renew": _plain(await client.subdomains.get_auto_renew(fqdn)),
                "health": _plain(await client.subdomains.get_health(fqdn)),
            }

    @server.tool(annotations=READS)
    async def list_records(fqdn: Fqdn) -> Answer:
        """List the records of a name of the user.

        A name with nameservers has none: its records are at the provider of these.
        """
        with _refusals():
            return _plain(await client.records.get(fqdn))

    @server.tool(annotations=READS)
    async def quote(fqdn: Fqdn) -> Answer:
        """Show what a name costs in credits now: its renewal if the user holds it, else its registration by
        mode.

        Nothing is done or paid.
        """
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
        fqdn: Fqdn, nameservers: Nameservers = None, ds_records: DsRecords = None, glue: Glue = None
    ) -> Answer:
        """Change nameservers, DS records or glue of a name, and wait until the DNS has them.

        Only what is given changes. What is given replaces all of its kind: to add one, look with get_name
        first, and give all.
        """
        with _refusals():
            if nameservers is None and ds_records is None and glue is None:
                raise ToolError("Nothing to change. Give nameservers, ds_records or glue.")
            delegation = _delegation(fqdn, nameservers, ds_records, glue)
            await client.subdomains.update_nameservers(fqdn, **delegation)
            return _plain(await _published(client, fqdn))

    @server.tool(annotations=SETS)
    async def set_record(
        fqdn: Fqdn,
        name: RecordOwner,
        type: RecordType,  # noqa: A002 - the API's word
        values: RecordValues,
        ttl: Ttl = 300,
    ) -> Answer:
        """Set the records of one type at one owner of a name without nameservers, and wait until the DNS has
        them.

        The values replace those that are there: to add one, look with list_records first, and give all. Other
        records stay.
        """
        with _refusals():
            done = await client.records.set(fqdn, name, type, values, ttl=ttl)
            await _published(client, fqdn)
            return _plain(done)

    @server.tool(annotations=SETS)
    async def remove_record(
        fqdn: Fqdn,
        name: RecordOwner,
        type: RecordType,  # noqa: A002 - the API's word
    ) -> Answer:
        """Remove all records of one type at one owner of a name, and wait until the DNS has none.

        Ask the user before.
        """
        with _refusals():
            done = await client.records.remove(fqdn, name, type)
            await _published(client, fqdn)
            return _plain(done)

    @server.tool(annotations=SETS)
    async def set_auto_renew(
        fqdn: Fqdn,
        *,
        enabled: Annotated[bool, Field(description="Whether the name is renewed automatically.")],
        max_credits: Annotated[
            int, Field(ge=0, le=CREDITS_MAX, description="The most that each renewal may cost in credits.")
        ] = 0,
    ) -> Answer:
        """Turn the automatic renewal of a name on or off.

        Each renewal may then cost up to max_credits, so ask the user before.
        """
        with _refusals():
            most = max_credits if enabled else None
            return _plain(await client.subdomains.set_auto_renew(fqdn, enabled, max_credits=most))

    @server.tool(annotations=REMOVES)
    async def trash_name(fqdn: Fqdn) -> Answer:
        """Delete a name: it leaves the DNS at once.

        For a while restore_name brings it back. Ask the user before.
        """
        with _refusals():
            return _plain(await client.subdomains.delete(fqdn))


def _add_payments(server: MCPServer[None], client: AsyncClient) -> None:
    """Add the tools that may cost credits.

    Without max_credits they do what is free, and refuse the rest with its price.
    """

    @server.tool(annotations=ADDS)
    async def register_name(
        fqdn: Fqdn,
        nameservers: Nameservers = None,
        ds_records: DsRecords = None,
        glue: Glue = None,
        registration_mode: Mode = None,
        max_credits: MaxCredits = 0,
    ) -> Answer:
        """Register a name, and wait until the DNS has it.

        If it costs more than max_credits, nothing happens and the answer is the price.
        """
        with _refusals():
            delegation = _delegation(fqdn, nameservers, ds_records, glue)
            done = await client.subdomains.register(
                fqdn, **delegation, registration_mode=registration_mode, **_payment(max_credits)
            )
            return {**_plain(done), "subdomain": _plain(await _published(client, fqdn))}

    @server.tool(annotations=ADDS)
    async def renew_name(fqdn: Fqdn, max_credits: MaxCredits = 0) -> Answer:
        """Renew a name for one more term.

        If it costs more than max_credits, nothing happens and the answer is the price.
        """
        with _refusals():
            return _plain(await client.subdomains.renew(fqdn, **_payment(max_credits)))

    @server.tool(annotations=ADDS)
    async def restore_name(fqdn: Fqdn, max_credits: MaxCredits = 0) -> Answer:
        """Bring a name back from the trash.

        That is free within its term; else, if it costs more than max_credits, the answer is the price.
        """
        with _refusals():
            return _plain(await client.subdomains.restore(fqdn, **_payment(max_credits)))


def _add_tickets(server: MCPServer[None], client: AsyncClient) -> None:
    """Add the tools for support."""

    @server.tool(annotations=READS)
    async def list_tickets(
        status: Annotated[
            Literal["open", "answered", "closed"] | None, Field(description="Only tickets with this status.")
        ] = None,
        limit: Annotated[int, Field(ge=1, description="The most tickets to return.")] = 100,
    ) -> Answer:
        """List the user's tickets, the most recent first.

        `is_complete` is false if there are more than `limit`.
        """
        with _refusals():
            found: list[Answer] = []
            async for each in client.tickets.list(status=status):
                if len(found) == limit:
                    return {"tickets": found, "is_complete": False}
                found.append(_plain(each))
            return {"tickets": found, "is_complete": True}

    @server.tool(annotations=READS)
    async def get_ticket(ticket: Ticket) -> Answer:
        """Show a ticket of the user with its messages."""
        with _refusals():
            return _plain(await client.tickets.get(ticket))

    @server.tool(annotations=ADDS)
    async def open_ticket(
        subject: Annotated[str, Field(description="What it is about, in a line.")],
        message: Message,
        fqdn: Annotated[
            Name | None, Field(description="The name of the user that it is about, if any.")
        ] = None,
    ) -> Answer:
        """Write to the operator of the registry, perhaps about a name of the user."""
        with _refusals():
            return _plain(await client.tickets.open(subject, message, fqdn=fqdn))

    @server.tool(annotations=ADDS)
    async def reply_to_ticket(ticket: Ticket, message: Message) -> Answer:
        """Reply to a ticket of the user that isn't closed."""
        with _refusals():
            return _plain(await client.tickets.reply(ticket, message))


@contextmanager
def _refusals() -> Generator[None, None, None]:
    """Turn the errors of the client into errors of a tool.

    Raises:
        ToolError: the service refused, gave no answer, or is not done in time; or a value can't be one.
    """
    try:
        yield
    except ApiError as refusal:
        raise ToolError(sentences_of(refusal)) from refusal
    except (SubletError, ValueError) as error:
        raise ToolError(str(error)) from error


async def _published(client: AsyncClient, fqdn: str) -> Subdomain:
    """Wait until the DNS has a change that is stored, and return the name.

    Raises:
        ToolError: that isn't known. The sentence says that the change is stored.
    """
    try:
        return await client.subdomains.wait(fqdn)
    except SubletError as error:
        stored = f"The change of {fqdn} is stored, and perhaps not in the DNS yet. Look with get_name."
        raise ToolError(f"{stored} {error}") from error


def _payment(max_credits: int) -> dict[str, Any]:
    """Return the members that confirm a payment; none if nothing may be paid, so that a price is refused with
    its quote.
    """
    return {"confirm": True, "max_credits": max_credits} if max_credits > 0 else {}


def _delegation(
    fqdn: str,
    nameservers: list[str] | None,
    ds_records: list[str] | None,
    glue: dict[str, list[str]] | None,
) -> dict[str, Any]:
    """Return a delegation, whose hosts and addresses are canonical, as the client takes it; None for what
    isn't given.

    Raises:
        ValueError: a text is no DS record of the name.
    """
    entries = [glue_entry(host, each) for host, addresses in (glue or {}).items() for each in addresses]
    return {
        "nameservers": nameservers,
        "ds_records": None if ds_records is None else [parse_ds(each, fqdn) for each in ds_records],
        "glue": None if glue is None else entries,
    }


def _plain(result: msgspec.Struct) -> Answer:
    """Return a result of the client as JSON has it."""
    answer: Answer = msgspec.to_builtins(result)
    return answer


def main() -> None:
    """Run the server for the registry in `SUBLET_URL` and the token in `SUBLET_TOKEN`."""
    try:
        client = AsyncClient.from_environment()
    except ValueError as error:
        sys.exit(f"sublet-mcp: {error}")
    build_server(client).run("stdio")
