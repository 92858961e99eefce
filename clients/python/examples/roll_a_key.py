"""Replace the DS records of a name, the new ones first beside the old ones: python roll_a_key.py NAME DS

Run it with --finish as the last argument after the time to live of the old ones, to remove those.
"""

import sys

from sublet_client import Client, PreconditionFailed


def main(fqdn: str, ds: str, *flags: str) -> None:
    """Add a DS record, or leave only this one. A change that was made in between is not overwritten."""
    with Client.from_environment() as client:
        seen = client.subdomains.get_tagged(fqdn)
        wanted = [ds] if "--finish" in flags else [*seen.value.ds_records, ds]
        try:
            done = client.subdomains.update_nameservers(fqdn, ds_records=wanted, if_match=seen.etag)
        except PreconditionFailed:
            sys.exit(f"{fqdn} was changed meanwhile. Run this again.")
        print(*(each.key_tag for each in done.subdomain.ds_records))


if __name__ == "__main__":
    main(*sys.argv[1:])
