#!/usr/bin/python
"""Register, delegate and delete a name."""

DOCUMENTATION = """
module: subdomain
short_description: Register, delegate and delete a name
description:
  - Registers a name, or brings it back from the trash, and sets its delegation and automatic renewal.
  - Options that are left out stay as they are.
  - Nothing is paid beyond O(max_credits).
extends_documentation_fragment: sublet.registry.registry
options:
  fqdn:
    description: The name.
    type: str
    required: true
  state:
    description: With V(absent) the name is in the trash, and not in the DNS.
    type: str
    choices: [present, absent]
    default: present
  nameservers:
    description: The nameservers, in any order.
    type: list
    elements: raw
  glue:
    description: The addresses of nameservers at or below the name, a list for each nameserver.
    type: dict
  ds_records:
    description: DS records or DNSKEYs, in zone-file text.
    type: list
    elements: raw
  registration_mode:
    description: The mode of a registration. By default V(free) while the quota lasts, then V(plus).
    type: str
    choices: [free, plus, premium, special]
  max_credits:
    description: The most that one payment for the name may cost - registration, way back from the trash, automatic renewal.
    type: int
    default: 0
  auto_renew:
    description: Whether the name is renewed automatically, for at most O(max_credits).
    type: bool
"""  # noqa: E501

EXAMPLES = """
- sublet.registry.subdomain:
    fqdn: blog.example.net
    nameservers: [ns1.provider.example, ns2.provider.example]
"""

RETURN = """
subdomain:
  description: The name after the change, as the API shows it.
  type: dict
  returned: success, and not for a change in check mode
price_credits:
  description: What the registration or the way back from the trash costs.
  type: int
  returned: if the name was not there
"""

from datetime import UTC, datetime

from ansible_collections.sublet.registry.plugins.module_utils import registry


def act(module, client):
    """Bring the name into the wanted state."""
    fqdn = registry.parse_option("fqdn", module.params["fqdn"], registry.spelling.parse_name)
    wanted = registry.normal_delegation(fqdn, module.params)
    module.params["max_credits"] = registry.parse_price("max_credits", module.params["max_credits"])
    held = registry.find(client, fqdn)
    if module.params["state"] == "absent":
        return remove(module, client, held)
    if held is None:
        return create(module, client, fqdn, wanted)
    return change(module, client, held, wanted)


def remove(module, client, held):
    """Move the name to the trash."""
    if held is None:
        return {"changed": False}
    if not module.check_mode:
        client.subdomains.delete(held.fqdn)
    return {"changed": True, "diff": {"before": shown(held), "after": {}}}


def create(module, client, fqdn, wanted):
    """Register the name, or bring it back from the trash."""
    most = module.params["max_credits"]
    trashed = registry.find_trashed(client, fqdn)
    if trashed is None:
        quote = client.subdomains.quote(
            fqdn,
            registration_mode=module.params["registration_mode"],
            **registry.arguments_of(wanted),
        )
        price = quote.price
    else:
        price = 0 if trashed.expires_at > datetime.now(UTC) else None
    if price is not None and price > most:
        module.fail_json(
            msg=f"{fqdn} costs {price} credits, and max_credits is {most}. Set max_credits to {price} to "
            "pay that.",
            price_credits=price,
        )
    kept = {} if trashed is None else registry.delegation_of(trashed)
    after = {"fqdn": fqdn, **kept, **wanted, **wanted_renewal(module)}
    told = {"changed": True, "price_credits": price, "diff": {"before": {}, "after": after}}
    if module.check_mode:
        return told
    if trashed is None:
        quote.confirm(max_credits=price)
    else:
        client.subdomains.restore(fqdn, confirm=True, max_credits=most)
        if wanted:
            client.subdomains.update_nameservers(fqdn, **registry.arguments_of(wanted))
    if module.params["auto_renew"] is not None:
        set_auto_renew(module, client, fqdn)
    return {**told, "subdomain": registry.plain(client.subdomains.wait(fqdn))}


def change(module, client, held, given):
    """Change the delegation and the automatic renewal of a name."""
    before = registry.delegation_of(held)
    wanted = {**before, **given}
    renewal_before, renewal = present_renewal(module, client, held.fqdn), wanted_renewal(module)
    delegation_changes, renewal_changes = wanted != before, renewal != renewal_before
    mode = module.params["registration_mode"]
    if mode not in (None, held.registration_type):
        module.fail_json(
            msg=f"The mode of {held.fqdn} is {held.registration_type} and can't be changed. Write that "
            "mode, or leave it out."
        )
    told = {"changed": delegation_changes or renewal_changes}
    told["diff"] = {
        "before": {**shown(held), **renewal_before},
        "after": {"fqdn": held.fqdn, **wanted, **renewal},
    }
    if not told["changed"]:
        return {**told, "subdomain": registry.plain(held)}
    if module.check_mode:
        if wanted["nameservers"] and delegation_changes:
            warn_of_records(module, client, held.fqdn)
        return told
    if delegation_changes:
        client.subdomains.update_nameservers(held.fqdn, **registry.arguments_of(wanted))
    if renewal_changes:
        set_auto_renew(module, client, held.fqdn)
    return {**told, "subdomain": registry.plain(client.subdomains.wait(held.fqdn))}


def warn_of_records(module, client, fqdn):
    """Warn if a name has records, because the registry then refuses nameservers.

    A task before may remove them.
    """
    if client.records.get(fqdn).records:
        module.warn(f"{fqdn} has records. Its nameservers are refused unless a task before removes them.")


def present_renewal(module, client, fqdn):
    """Return the automatic renewal as `wanted_renewal` has it; nothing if the task doesn't set it."""
    if module.params["auto_renew"] is None:
        return {}
    found = client.subdomains.get_auto_renew(fqdn)
    return {"auto_renew": found.enabled, "max_credits": found.max_credits}


def wanted_renewal(module):
    """Return the automatic renewal that the task sets, if it does; off it has no `max_credits`."""
    wanted = module.params["auto_renew"]
    if wanted is None:
        return {}
    return {"auto_renew": wanted, "max_credits": module.params["max_credits"] if wanted else None}


def set_auto_renew(module, client, fqdn):
    """Turn the automatic renewal on or off."""
    wanted = wanted_renewal(module)
    client.subdomains.set_auto_renew(fqdn, wanted["auto_renew"], max_credits=wanted["max_credits"])


def shown(name):
    """Return what a diff shows of a name."""
    return {"fqdn": name.fqdn, **registry.delegation_of(name)}


def main():
    """Run the module."""
    options = {
        "fqdn": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "nameservers": {"type": "list", "elements": "raw"},
        "glue": {"type": "dict"},
        "ds_records": {"type": "list", "elements": "raw"},
        "registration_mode": {"type": "str", "choices": ["free", "plus", "premium", "special"]},
        "max_credits": {"type": "int", "default": 0},
        "auto_renew": {"type": "bool"},
    }
    registry.run(options, act)


if __name__ == "__main__":
    main()
