"""What to call after a refusal, and how fields are given: the API's own sentences are about requests (no
network).
"""

from collections.abc import Iterable, Mapping
from typing import Any

METHODS = {
    "conflict": "subdomains.timeline",
    "delegation_broken": "subdomains.check_delegation",
    "expired_token": "devices.start",
    "free_quota_exceeded": "account.free_subdomains",
    "insufficient_credits": "credits.get",
    "insufficient_scope": "tokens.create",
    "nameserver_required": "subdomains.update_nameservers",
    "organization_not_found": "organizations.list",
    "payment_confirmation_required": "subdomains.quote",
    "platform_domain_not_found": "platform_domains.list",
    "precondition_failed": "subdomains.get_tagged",
    "subdomain_not_found": "subdomains.list",
    "subdomain_suspended": "tickets.open",
    "ticket_closed": "tickets.open",
    "ticket_not_found": "tickets.list",
    "token_not_found": "tokens.list",
    "transfer_not_found": "transfers.list",
    "transfer_pending": "transfers.withdraw",
}
"""The method of the client, by the code. It is left out if the object may be of another kind."""
FIELDS = {
    "nameservers": "a list of names",
    "glue": "a list of GlueEntry(host=…, ipv4=…, ipv6=…)",
    "ds_records": "a list of texts, Ds, DsRecord or Dnskey",
}
"""How a field is given that was of the wrong type."""


def advice(code: str, details: Mapping[str, Any], fields: Iterable[tuple[str, str]]) -> str:
    """Return what to do in Python after a refusal with wrong `fields` and their codes; empty if the API's
    sentence says enough.
    """
    for field, fault in fields:
        kind = FIELDS.get(field.partition("[")[0])
        if kind is not None and fault in ("wrong_type", "unknown_field"):
            return f"{field.partition('[')[0]} is {kind}"
    method = METHODS.get(code)
    if code == "conflict" and "status" not in details:
        method = None
    elif code == "subdomain_not_found" and details.get("in_trash"):
        method = "subdomains.restore" if details.get("restorable_until") else "tickets.open"
    elif code == "subdomain_unavailable" and details.get("owned"):
        is_in_trash = details.get("reason") == "in_trash"
        method = "subdomains.restore" if is_in_trash else "subdomains.update_nameservers"
    return f"see client.{method}()" if method else ""
