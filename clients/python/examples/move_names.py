"""Set the same nameservers for all names under a platform domain, ten at a time: python move_names.py DOMAIN
NAMESERVER…
"""

import asyncio
import os
import sys

from sublet_client import AsyncClient, SubletError

AT_ONCE = 10


async def main(domain: str, *nameservers: str) -> None:
    """Change all names, and say which ones failed."""
    gate = asyncio.Semaphore(AT_ONCE)
    async with AsyncClient(os.environ["SUBLET_URL"], os.environ["SUBLET_TOKEN"]) as client:

        async def move(fqdn: str) -> str:
            async with gate:
                try:
                    await client.subdomains.update_nameservers(fqdn, nameservers=nameservers)
                except SubletError as error:
                    return f"{fqdn}: {error}"
                return f"{fqdn}: moved"

        names = [each.fqdn async for each in client.subdomains.list(domain=domain)]
        for line in await asyncio.gather(*map(move, names)):
            print(line)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
