"""The MCP server under the MCP SDK's own client over stdio, against the real service."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sublet_client import AsyncClient
from support.running_service import DS, Registrant, RunningService

if TYPE_CHECKING:
    from mcp import Client

NS = ["ns1.provider.example", "ns2.provider.example"]
README = Path(__file__).resolve().parents[2] / "clients/mcp/README.md"
KINDS = {
    (True, None, None): "reads",
    (False, False, False): "adds",
    (False, True, True): "overwrites",
    (False, True, False): "removes",
}


def _printed(program: str) -> tuple[list[str], list[str]]:
    """Return the command and the variables of the configuration in the README that starts a program."""
    for printed in re.findall(r"```json\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL):
        (settings,) = json.loads(printed)["mcpServers"].values()
        if settings["command"] == program:
            path = shutil.which(program, path=str(Path(sys.executable).parent))
            assert path is not None, f"{program} is not installed. Run `make .venv/dev.stamp`."
            return [path, *settings.get("args", ())], list(settings.get("env", ()))
    raise AssertionError(f"the README doesn't start {program}")


@asynccontextmanager
async def _session(service: RunningService, who: Registrant) -> "AsyncIterator[Client]":
    """Start the server with the address and token in its configuration."""
    from mcp import Client, StdioServerParameters  # noqa: PLC0415 - it takes a second in each process of the tests

    (command,), variables = _printed("sublet-mcp")
    environment = dict(zip(variables, (service.base_url, who.token), strict=True))
    async with Client(StdioServerParameters(command=command, env=environment)) as client:
        yield client


def _signed_in(service: RunningService, who: Registrant, home: Path) -> "Client":
    """Sign in with `subletctl`, and return a client of the server that it starts."""
    from mcp import Client, StdioServerParameters  # noqa: PLC0415

    (command, *arguments), variables = _printed("subletctl")
    assert variables == []
    environment = {**os.environ, "XDG_CONFIG_HOME": str(home)}
    login = [command, "login", service.base_url, "--token"]
    subprocess.run(login, env=environment, input=who.token, text=True, capture_output=True, check=True)
    return Client(StdioServerParameters(command=command, args=arguments, env=environment))


async def _call(client: "Client", tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool, which must succeed."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return dict(result.structured_content)


async def _refusal(client: "Client", tool: str, **arguments: Any) -> str:
    """Call a tool, which must fail, and return its sentences."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    return " ".join(each.text for each in result.content if each.type == "text")


def test_an_agent_registers_and_manages_a_name(service: RunningService) -> None:
    service.add_domain("example.test", "--records", "on")
    who = service.add_user(credit_count=25)

    async def story() -> None:
        async with _session(service, who) as client:
            tools = (await client.list_tools()).tools
            _compare_with_readme({each.name: each.annotations for each in tools})
            for tool in tools:
                for name, schema in tool.input_schema["properties"].items():
                    assert schema.get("description"), f"{tool.name}: {name}"
            shown = await _call(client, "quote", fqdn="blog.example.test")
            assert {each["mode"]: each["price_credits"] for each in shown["modes"]} == {"free": 0, "plus": 10}
            done = await _call(client, "register_name", fqdn="blog.example.test", nameservers=NS)
            assert (done["subdomain"]["status"], done["charged_credits"]) == ("active", 0)
            glue = {"ns1.blog.example.test": ["8.8.4.4", "2001:4860:4860::8844"]}
            await _call(
                client,
                "set_delegation",
                fqdn="blog.example.test",
                nameservers=["ns1.blog.example.test"],
                ds_records=[],
                glue=glue,
            )
            assert service.delegation("blog.example.test") == {"ns1.blog.example.test"}
            spelled = f"blog.example.test. 1h IN DS ( {DS.upper()} )"
            await _call(client, "set_delegation", fqdn="Blog.Example.Test.", ds_records=[spelled])
            kept = await _call(client, "set_delegation", fqdn="blog.example.test", nameservers=[*NS, *glue])
            assert (len(kept["ds_records"]), kept["glue"][0]["ipv4"]) == (1, "8.8.4.4"), (
                "what isn't given stays"
            )
            kept = await _call(client, "set_delegation", fqdn="blog.example.test", glue={}, nameservers=NS)
            assert (len(kept["ds_records"]), kept["glue"], kept["nameservers"]) == (1, [], NS)
            kept = await _call(client, "set_delegation", fqdn="blog.example.test", ds_records=[])
            assert (kept["ds_records"], kept["nameservers"]) == ([], NS)
            await _call(client, "set_auto_renew", fqdn="blog.example.test", enabled=True)
            assert (await _call(client, "get_name", fqdn="blog.example.test"))["auto_renew"]["enabled"]
            assert (await _call(client, "quote", fqdn="blog.example.test"))["renewal_price_credits"] == 0
            await _call(client, "trash_name", fqdn="blog.example.test")
            assert (await _call(client, "list_names"))["names"] == []
            (trashed,) = (await _call(client, "list_names", in_trash=True))["names"]
            await _call(client, "restore_name", fqdn=trashed["fqdn"])
            opened = await _call(
                client, "open_ticket", subject="Thanks", message="All is well.", fqdn=trashed["fqdn"]
            )
            number = opened["ticket_number"]
            await _call(client, "reply_to_ticket", ticket=number, message="Really.")
            (ticket,) = (await _call(client, "list_tickets", status="open"))["tickets"]
            assert ticket["ticket_number"] == number
            read = await _call(client, "get_ticket", ticket=number)
            assert [each["message"] for each in read["messages"]] == ["All is well.", "Really."]
            (ours,) = (await _call(client, "platform_domains"))["platform_domains"]
            assert ours["domain"] == "example.test"
            await _manage_records(client, service)

    asyncio.run(story())


async def _manage_records(client: "Client", service: RunningService) -> None:
    site = {"fqdn": "site.example.test"}
    await _call(client, "register_name", **site)
    www = {**site, "name": "www"}
    await _call(client, "set_record", **www, type="a", values=["8.8.4.4", "8.8.8.8"], ttl=60)
    assert sorted(service.dig("www.site.example.test", "A", "+short").split()) == ["8.8.4.4", "8.8.8.8"]
    (found,) = (await _call(client, "list_records", **site))["records"]
    assert (found["name"], found["type"], found["ttl"]) == ("www", "A", 60)
    alone = await _refusal(client, "set_record", **www, type="CNAME", values=["example.github.io"])
    assert "A CNAME must be alone at www" in alone
    unknown = await _refusal(client, "set_record", **www, type="NS", values=["ns1.provider.example"])
    assert "`NS` is not a type that a name may have" in unknown
    blog = {"fqdn": "blog.example.test", "name": "@", "type": "A"}
    assert "Remove them first" in await _refusal(client, "set_record", **blog, values=["8.8.4.4"])
    assert "Remove the records first" in await _refusal(client, "set_delegation", **site, nameservers=NS)
    left = await _call(client, "remove_record", **www, type="A")
    assert left["records"] == []
    assert "NXDOMAIN" in service.dig("www.site.example.test", "A")


def test_nothing_is_paid_without_max_credits(service: RunningService, tmp_path: Path) -> None:
    service.add_domain()
    server = _signed_in(service, service.add_user(credit_count=25), tmp_path)

    async def story() -> None:
        async with server as client:
            shop = {"fqdn": "shop.example.test", "registration_mode": "plus"}
            sentence = await _refusal(client, "register_name", **shop)
            assert "It costs 10 credits, and the balance is 25. Nothing was paid." in sentence
            assert "call again with max_credits=10" in sentence
            assert "price_changed" in await _refusal(client, "register_name", **shop, max_credits=9)
            assert (await _call(client, "account"))["credits"]["credit_balance"] == 25
            assert (await _call(client, "register_name", **shop, max_credits=10))["charged_credits"] == 10
            assert (await _call(client, "account"))["credits"]["credit_balance"] == 15
            assert "renewal_not_available" in await _refusal(client, "renew_name", fqdn="shop.example.test")
            wrong = await _refusal(
                client, "set_delegation", fqdn="shop.example.test", nameservers=["-"], ds_records=[]
            )
            assert "nameservers" in wrong
            assert "subdomain_not_found" in await _refusal(client, "trash_name", fqdn="nobody.example.test")

    asyncio.run(story())


WRONG: tuple[tuple[str, dict[str, Any], str], ...] = (
    (
        "set_delegation",
        {"fqdn": "a.example.test", "ns": []},
        "set_delegation has no parameter ns. Its parameters: fqdn",
    ),
    (
        "set_delegation",
        {"fqdn": "a.example.test", "nameservers": 1},
        "`nameservers` must be a list of texts.",
    ),
    (
        "set_delegation",
        {"fqdn": "a.example.test", "glue": []},
        "`glue` must be an object with a list of texts",
    ),
    (
        "set_delegation",
        {"fqdn": "a.example.test"},
        "Nothing to change. Give nameservers, ds_records or glue.",
    ),
    (
        "set_delegation",
        {"fqdn": "a.example.test", "glue": {"ns1.a.example.test": ["x"]}},
        "`glue`: `x` is not an IP address",
    ),
    ("get_name", {"fqdn": "blog"}, "`fqdn`: `blog` is a single label. Give a full name"),
    (
        "register_name",
        {"fqdn": "a.example.test", "nameservers": ["8.8.4.4"]},
        "`nameservers`: `8.8.4.4` is an address. Give the name of the host.",
    ),
    (
        "set_delegation",
        {"fqdn": "a.example.test", "ds_records": ["2371 13 1 abcd"]},
        "The digest type 1 is not accepted",
    ),
    (
        "open_ticket",
        {"subject": "Thanks", "message": "All is well.", "fqdn": "a..example.test"},
        "`fqdn`: `a..example.test` has an empty label.",
    ),
    ("get_name", {}, "`fqdn` is missing. It is a text. The full name, such as blog.example.net."),
    (
        "register_name",
        {"fqdn": "a.example.test", "registration_mode": "gold"},
        "must be one of free, plus, premium",
    ),
    ("register_name", {"fqdn": "a.example.test", "max_credits": -1}, "must be a whole number, at least 0."),
    ("list_names", {"limit": "many"}, "`limit` must be a whole number, at least 1."),
    ("set_auto_renew", {"fqdn": "a.example.test", "enabled": "perhaps"}, "`enabled` must be true or false."),
    ("delete_everything", {}, "There is no tool delete_everything. The tools are account"),
    ("get_name", {"fqdn": "missing.example.test"}, "in the list of your names"),
    ("get_ticket", {"ticket": "T-1"}, "in the list of your tickets"),
    ("register_name", {"fqdn": "a.example.org"}, "the list of platform domains"),
    ("renew_name", {"fqdn": "missing.example.test"}, "in the list of your names"),
    (
        "register_name",
        {"fqdn": "held.example.test"},
        "You hold this name already. Change its nameservers or records",
    ),
    ("get_name", {"fqdn": "gone.example.test"}, "is in the trash. Restore it"),
)


def test_a_lost_wait_says_that_the_change_is_stored() -> None:
    from mcp.server.mcpserver.exceptions import ToolError  # noqa: PLC0415 - as above

    from sublet_mcp.server import _published  # noqa: PLC0415

    with pytest.raises(ToolError, match=r"The change of blog.example.test is stored.*gave no answer"):
        asyncio.run(_published(AsyncClient("http://127.0.0.1:9", "sublet_x"), "blog.example.test"))


def test_errors_say_what_to_do_and_name_parameters(service: RunningService) -> None:
    service.add_domain()
    who = service.add_user()
    service.register(who, "held.example.test")
    service.register(who, "gone.example.test")
    service.call(who, "DELETE", "/subdomains/gone.example.test")

    async def story() -> None:
        async with _session(service, who) as client:
            for tool, arguments, sentence in WRONG:
                refusal = await _refusal(client, tool, **arguments)
                assert refusal.count(sentence) == 1
                assert not re.search(r"\b(GET|POST|PUT|PATCH|DELETE) /|pydantic|validation error", refusal), (
                    refusal
                )

    asyncio.run(story())


def _tools_of_readme() -> list[tuple[str, str]]:
    return re.findall(r"^\| `(\w+)` \|.*\| ([a-z ]+) \|$", README.read_text(encoding="utf-8"), re.MULTILINE)


def _compare_with_readme(annotations: dict[str, Any]) -> None:
    """Compare the tools and their annotations with the table of the README."""
    rows = _tools_of_readme()
    kinds = {
        name: KINDS[each.read_only_hint, each.destructive_hint, each.idempotent_hint]
        for name, each in annotations.items()
    }
    assert kinds == {name: kind.replace("may pay", "adds") for name, kind in rows}
