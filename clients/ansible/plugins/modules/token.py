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
    elements: str
  names:
    description: The names it is for, also V(*.example.net).
    type: list
    elements: str
  domains:
    description: The platform domains it is for.
    type: list
    elements: str
  networks:
    description: The networks it may be used from.
    type: list
    elements: str
  daily_credits:
    description: The most it may spend in 24 hours.
    type: int
"""

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

RESTRICTIONS = ("names", "domains", "networks", "daily_credits")


def act(module, client):
    """Bring the token into the wanted state."""
    now = datetime.now(UTC)
    found = [
        each
        for each in client.tokens.list()
        if each.name == module.params["name"]
        and each.revoked_at is None
        and (each.expires_at is None or each.expires_at > now)
    ]
    if module.params["state"] == "absent":
        return revoke(module, client, found)
    if len(found) > 1:
        module.fail_json(msg=f"There are {len(found)} valid tokens with this name. Revoke all but one.")
    return change(module, client, found[0]) if found else create(module, client)


def revoke(module, client, found):
    """Revoke tokens."""
    if not module.check_mode:
        for each in found:
            client.tokens.revoke(each.id)
    before = {"tokens": [each.id for each in found]}
    return {"changed": bool(found), "diff": {"before": before, "after": {"tokens": []}}}


def create(module, client):
    """Create the token."""
    wanted = given(module)
    told = {"changed": True, "diff": {"before": {}, "after": normal(wanted)}}
    if not wanted.get("scopes"):
        module.fail_json(msg="A new token needs scopes. Give at least one.")
    if module.check_mode:
        return told
    scopes = wanted.pop("scopes")
    made = client.tokens.create(module.params["name"], scopes, **wanted)
    return {**told, "token_id": made.token.id, "secret": made.secret.reveal() if made.secret else None}


def change(module, client, found):
    """Change what the token may do."""
    wanted = given(module)
    before = normal({name: getattr(found, name) for name in wanted})
    changed = before != normal(wanted)
    if changed and not module.check_mode:
        client.tokens.change(found.id, **wanted)
    return {"changed": changed, "token_id": found.id, "diff": {"before": before, "after": normal(wanted)}}


def given(module):
    """Return the options about what the token may do that are given."""
    options = {name: module.params[name] for name in ("scopes", *RESTRICTIONS)}
    return {name: value for name, value in options.items() if value is not None}


def normal(values):
    """Return values for a comparison: lists are sets, and names are in the API's spelling."""
    return {
        name: sorted({each.lower() for each in value}) if isinstance(value, list | tuple) else value
        for name, value in values.items()
    }


def main():
    """Run the module."""
    options = {
        "name": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "scopes": {"type": "list", "elements": "str"},
        "names": {"type": "list", "elements": "str"},
        "domains": {"type": "list", "elements": "str"},
        "networks": {"type": "list", "elements": "str"},
        "daily_credits": {"type": "int"},
    }
    registry.run(options, act)


if __name__ == "__main__":
    main()
