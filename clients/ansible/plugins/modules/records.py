#!/usr/bin/python
"""Set and remove the records of a name without nameservers."""

DOCUMENTATION = """
module: records
short_description: Set and remove the records of a name without nameservers
description:
  - Sets records of a name, if its platform domain allows them. All changes of a task are made together, or none.
  - Records that the task doesn't name stay as they are, unless it is O(exclusive).
extends_documentation_fragment: sublet.registry.registry
options:
  fqdn:
    description: The name.
    type: str
    required: true
  records:
    description: The records, an entry for each owner and type.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: The owner, relative to the name - V(@) for the name itself, V(www), V(*). A full name is accepted too.
        type: str
        required: true
      type:
        description: The type, such as V(A) or V(CNAME).
        type: str
        required: true
      values:
        description: All values, in the presentation form of zone files. An empty list removes them.
        type: list
        elements: raw
        required: true
      ttl:
        description: The TTL in seconds. Left out, it stays as it is; that of new records is 300.
        type: int
  exclusive:
    description: Whether all other records of the name are removed.
    type: bool
    default: false
"""  # noqa: E501

EXAMPLES = """
- sublet.registry.records:
    fqdn: blog.example.net
    records:
      - {name: "@", type: A, values: [8.8.4.4]}
      - {name: www, type: CNAME, values: [example.github.io], ttl: 3600}
      - {name: old, type: TXT, values: []}
"""

RETURN = """
records:
  description: All records of the name after the change, as the API shows them.
  type: list
  elements: dict
  returned: success, and not for a change in check mode
"""

from ansible_collections.sublet.registry.plugins.module_utils import registry

TTL_DEFAULT = 300


def act(module, client):
    """Bring the records into the wanted state."""
    fqdn = registry.parse_option("fqdn", module.params["fqdn"], registry.spelling.parse_name)
    wanted = [parse(fqdn, each) for each in module.params["records"]]
    places = [place for place, _, _ in wanted]
    twice = next((each for each in places if places.count(each) > 1), None)
    if twice is not None:
        raise ValueError(f"records: {twice[1]} of {twice[0]} is given twice. Put all values into one entry.")
    before = present(module, client, fqdn)
    after = {} if module.params["exclusive"] else dict(before)
    for place, values, ttl in wanted:
        after.pop(place, None)
        if values:
            ttl_before = before[place]["ttl"] if place in before else TTL_DEFAULT
            after[place] = {"ttl": ttl_before if ttl is None else ttl, "values": values}
    told = {"changed": after != before, "diff": {"before": shown(before), "after": shown(after)}}
    if not told["changed"]:
        return {**told, "records": listed(before)}
    if module.check_mode:
        warn_of_nameservers(module, client, fqdn, after)
        return told
    changed = sorted(after.keys() | before.keys())
    entries = [
        registry.record_entry(place, after.get(place))
        for place in changed
        if after.get(place) != before.get(place)
    ]
    done = client.records.change(fqdn, entries)
    client.subdomains.wait(fqdn)
    now = normal(done.records)
    # Of some texts only the registry knows the form, so what it has stored says whether that is a change.
    return {**told, "changed": now != before, "records": listed(now)}


def present(module, client, fqdn):
    """Return the records of a name.

    In check mode a name that isn't there has none: a task before may register it.
    """
    try:
        return normal(client.records.get(fqdn).records)
    except registry.SubdomainNotFound:
        if module.check_mode:
            return {}
        raise


def warn_of_nameservers(module, client, fqdn, after):
    """Warn if a name has nameservers, because the registry then refuses records.

    A task before may remove them.
    """
    try:
        has_nameservers = bool(client.subdomains.get(fqdn).nameservers)
    except registry.SubdomainNotFound:
        return
    if after and has_nameservers:
        module.warn(f"{fqdn} has nameservers. Its records are refused unless a task before removes them.")


def parse(fqdn, entry):
    """Return the place of an entry, its values as the API spells them as far as that is known here, and its
    TTL.
    """
    owner = registry.parse_option(
        "records", entry["name"], lambda text: registry.spelling.parse_record_owner(text, fqdn)
    )
    kind = registry.parse_option("records", entry["type"], registry.spelling.parse_record_type)
    values = registry.parse_options(
        "records",
        entry["values"],
        lambda text: registry.spelling.parse_record_value(text, kind, fqdn) or text,
    )
    return (owner, kind), values, entry["ttl"]


def normal(records):
    """Return records by their place."""
    return {(each.name, each.type): {"ttl": each.ttl, "values": sorted(each.values)} for each in records}


def listed(records):
    """Return records as the API shows them."""
    return [{"name": owner, "type": kind, **each} for (owner, kind), each in sorted(records.items())]


def shown(records):
    """Return records as a diff shows them."""
    return {f"{owner} {kind}": each for (owner, kind), each in sorted(records.items())}


def main():
    """Run the module."""
    entry = {
        "name": {"type": "str", "required": True},
        "type": {"type": "str", "required": True},
        "values": {"type": "list", "elements": "raw", "required": True},
        "ttl": {"type": "int"},
    }
    options = {
        "fqdn": {"type": "str", "required": True},
        "records": {"type": "list", "elements": "dict", "options": entry, "required": True},
        "exclusive": {"type": "bool", "default": False},
    }
    registry.run(options, act)


if __name__ == "__main__":
    main()
