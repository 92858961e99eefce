#!/usr/bin/python
"""Show names."""

DOCUMENTATION = """
module: subdomain_info
short_description: Show a name, or all names
description:
  - Shows one name of the user, or all of them.
extends_documentation_fragment: sublet.registry.registry
options:
  fqdn:
    description: The name. By default all names.
    type: str
"""

EXAMPLES = """
- sublet.registry.subdomain_info:
    fqdn: blog.example.net
  register: found
"""

RETURN = """
subdomains:
  description: The names, as the API shows them. Empty if the user doesn't hold the name.
  type: list
  elements: dict
  returned: success
"""

from ansible_collections.sublet.registry.plugins.module_utils import registry


def act(module, client):
    """Return the names."""
    if module.params["fqdn"] is None:
        found = list(client.subdomains.list())
    else:
        held = registry.find(client, module.params["fqdn"])
        found = [] if held is None else [held]
    return {"changed": False, "subdomains": [registry.plain(each) for each in found]}


def main():
    """Run the module."""
    registry.run({"fqdn": {"type": "str"}}, act)


if __name__ == "__main__":
    main()
