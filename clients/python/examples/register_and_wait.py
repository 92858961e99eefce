"""Register a name, and wait until the DNS has it: python register_and_wait.py NAME NAMESERVER…"""

import sys

from sublet_client import Client, NotInTime


def main(fqdn: str, *nameservers: str) -> None:
    """Register a free name; a paid one is refused with its price."""
    with Client.from_environment() as client:
        client.subdomains.register(fqdn, nameservers=nameservers)
        try:
            found = client.subdomains.wait(fqdn)
        except NotInTime as error:
            sys.exit(str(error))
        print(found.fqdn, found.status, found.provision_error or "")


if __name__ == "__main__":
    main(*sys.argv[1:])
