"""Warnings on an accepted delegation that only the registry's database can give."""

from collections.abc import Sequence

from sublet.db import Tx
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.zone_signing import is_zone_signed
from sublet.subdomains.model import Subdomain
from sublet.subdomains.nameserver_warnings import nameserver_warnings


def registry_warnings(
    tx: Tx, subdomain: Subdomain, above: Sequence[PlatformDomain] | None = None
) -> tuple[str, ...]:
    """Return the warnings on a name's nameservers (`above` as in `nameserver_warnings`), then the one on its parent zone."""
    return (*nameserver_warnings(tx, subdomain, above), *_parent_warnings(tx, subdomain))


def _parent_warnings(tx: Tx, subdomain: Subdomain) -> tuple[str, ...]:
    """Return `parent_not_signed` for DS records in a zone that is known to be unsigned: no validator uses them (RFC 4035, section 5.2)."""
    if not subdomain.delegation.ds_records or is_zone_signed(tx, subdomain.platform_domain_id) is not False:
        return ()
    warning = (
        f"parent_not_signed: The zone {subdomain.domain} is not signed, so the DS records have no effect and resolvers take "
        f"{subdomain.fqdn} for unsigned. Ask the operator whether the zone will be signed."
    )
    return (warning,)
