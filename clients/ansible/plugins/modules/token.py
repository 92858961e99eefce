#!/usr/bin/python
"""Create, restrict and revoke a token."""

DOCUMENTATION = """
module: token
short_description: Create, restrict and revoke a token
description:
  - A token is known by its name, among those that are valid.
  - Options that are left out stay as they are; of a new token they are those of the module's own token.
  - The secret of a new token is returned once. Set C(no_log) on the task, and store it.
extends_documentation_fragment: sublet.registry.registry
options:
  name:
    description: What it is for.
    type: str
    required: true
  state:
    description: With V(absent) every valid token of this name is revoked.
    type: str
    choices: [present, absent]
    default: present
  scopes:
    description: What it may do. Required for a new token.
    type: list
    elements: raw
  names:
    description: The names it is for, also V(*.example.net).
    type: list
    elements: raw
  domains:
    description: The platform domains it is for.
    type: list
    elements: raw
  networks:
    description: The networks it may be used from.
    type: list
    elements: raw
  record_names:
    description: The owners whose records it may change, such as V(_acme-challenge), also V(_acme-challenge.*).
    type: list
    elements: raw
  daily_credits:
    description: The most it may spend in 24 hours.
    type: int
  expires_at:
    description: When it expires (RFC 3339), such as V(2027-01-31T12:00:00Z). By default a new token expires in 30 days.
    type: str
"""  # noqa: E501

EXAMPLES = """
- sublet.registry.token:
    name: ci
    scopes: [subdomains:read, subdomains:write]
    names: ["*.example.net"]
  register: made
  no_log: true
"""

RETURN = """
secret:
  description: The secret of a new token.
  type: str
  returned: if the token was created
token_id:
  description: The id of the token.
  type: int
  returned: if there is a token, and not for a new one in check mode
"""

from datetime import UTC, datetime

from ansible_collections.sublet.registry.plugins.module_utils import registry

LISTS = {
    "scopes": "parse_scope",
    "names": "parse_pattern",
    "domains": "parse_name",
    "networks": "parse_network",
    "record_names": "parse_record_pattern",
}
"""The options with lists, and the parsers of their items in `sublet_client.spelling`."""


def act(module, client):
    """Bring the token into the wanted state."""
    now = datetime.now(UTC)
    name, wanted = module.params["name"].strip(), parse(module.params)
    found = [
        each
        for each in client.tokens.list()
        if each.name == name
        and each.revoked_at is None
        and (each.expires_at is None or each.expires_at > now)
    ]
    if module.params["state"] == "absent":
        return revoke(module, client, found)
    if len(found) > 1:
        module.fail_json(msg=f"There are {len(found)} valid tokens with this name. Revoke all but one.")
    return change(module, client, found[0], wanted) if found else create(module, client, name, wanted)


def revoke(module, client, found):
    """Revoke tokens. The one that the module uses is the last, because it revokes the others."""
    if not module.check_mode:
        own = client.account.me().token
        for each in sorted(found, key=lambda each: own is not None and each.id == own.id):
            client.tokens.revoke(each.id)
    before = {"tokens": [each.id for each in found]}
    return {"changed": bool(found), "diff": {"before": before, "after": {"tokens": []}}}


def create(module, client, name, wanted):
    """Create the token."""
    told = {"changed": True, "diff": {"before": {}, "after": shown(wanted)}}
    if "scopes" not in wanted:
        module.fail_json(msg="A new token needs scopes. Give at least one.")
    if module.check_mode:
        return told
    made = client.tokens.create(name, **wanted)
    if made.secret is None:  # the answer with the secret was lost
        made = client.tokens.rotate(made.token.id, overlap_seconds=0)
    return {**told, "token_id": made.token.id, "secret": made.secret.reveal() if made.secret else None}


def change(module, client, found, wanted):
    """Change what the token may do."""
    before = {option: getattr(found, option) for option in wanted}
    before = {
        option: sorted(value) if isinstance(value, tuple) else value for option, value in before.items()
    }
    changed = before != wanted
    if changed and not module.check_mode:
        client.tokens.change(found.id, **wanted)
    diff = {"before": shown(before), "after": shown(wanted)}
    return {"changed": changed, "token_id": found.id, "diff": diff}


def parse(options):
    """Return the options about what the token may do that are given, as the API has them."""
    wanted = {}
    for option, parser in LISTS.items():
        if options[option] is not None:
            wanted[option] = registry.parse_options(
                option, options[option], getattr(registry.spelling, parser)
            )
            if not wanted[option]:
                raise ValueError(f"{option}: the list is empty. Give an item, or leave the option out.")
    if options["daily_credits"] is not None:
        wanted["daily_credits"] = registry.parse_price("daily_credits", options["daily_credits"])
    if options["expires_at"] is not None:
        wanted["expires_at"] = registry.parse_option(
            "expires_at", options["expires_at"], registry.spelling.parse_instant
        )
    return wanted


def shown(values):
    """Return values as a diff shows them."""
    return {
        option: value.isoformat() if isinstance(value, datetime) else value
        for option, value in values.items()
    }


def main():
    """Run the module."""
    options = {
        "name": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "scopes": {"type": "list", "elements": "raw"},
        "names": {"type": "list", "elements": "raw"},
        "domains": {"type": "list", "elements": "raw"},
        "networks": {"type": "list", "elements": "raw"},
        "record_names": {"type": "list", "elements": "raw"},
        "daily_credits": {"type": "int"},
        "expires_at": {"type": "str"},
    }
    registry.run(options, act)


if __name__ == "__main__":
    main()
