"""Two changes at once that close a circle of nameservers together: one of them is refused, on both engines."""

import asyncio
from typing import Any

from sublet.errors import ValidationFailed
from sublet.subdomains.model import UpdateNameservers
from sublet.subdomains.update_nameservers import update_nameservers
from support.registry import Registry

ROUNDS = 20
OF = {"ann": "a.example.test", "ben": "b.else.test"}
CLOSING = {"ann": "ns.b.else.test", "ben": "ns.a.example.test"}


def test_one_of_two_changes_that_close_a_circle_is_refused(registry: Registry) -> None:
    registry.add_domain("else.test")
    for name, fqdn in OF.items():
        registry.register(fqdn, name)

    async def change(name: str, *nameservers: str) -> Any:
        command = UpdateNameservers(nameservers=nameservers)
        return await registry.db.write(update_nameservers, registry.actor(name), OF[name], command)

    async def close() -> list[Any]:
        changes = (change(name, host) for name, host in CLOSING.items())
        return list(await asyncio.gather(*changes, return_exceptions=True))

    for _ in range(ROUNDS):
        refused = [each for each in registry.run(close()) if isinstance(each, BaseException)]
        assert [type(each) for each in refused] == [ValidationFailed]
        for name in OF:
            registry.run(change(name))
