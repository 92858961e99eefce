#!/usr/bin/python
"""Open a support ticket."""

DOCUMENTATION = """
module: ticket
short_description: Open a support ticket
description:
  - Opens a ticket, unless there is one with this subject that isn't closed.
extends_documentation_fragment: sublet.registry.registry
options:
  subject:
    description: The subject.
    type: str
    required: true
  message:
    description: The first message.
    type: str
    required: true
  fqdn:
    description: A name of the user that it is about.
    type: str
  type:
    description: The kind of ticket.
    type: str
    choices: [contact, abuse, support]
    default: support
"""

EXAMPLES = """
- sublet.registry.ticket:
    subject: Our nameservers move on Friday
    message: Please tell us if you see failures.
"""

RETURN = """
ticket_number:
  description: The number of the ticket.
  type: str
  returned: if there is a ticket
"""

from ansible_collections.sublet.registry.plugins.module_utils import registry


def act(module, client):
    """Open the ticket if it isn't there."""
    subject = module.params["subject"]
    for each in client.tickets.list():
        if each.subject == subject and each.status != "closed":
            return {"changed": False, "ticket_number": each.ticket_number}
    told = {"changed": True, "diff": {"before": {}, "after": {"subject": subject}}}
    if module.check_mode:
        return told
    made = client.tickets.open(
        subject, module.params["message"], type=module.params["type"], fqdn=module.params["fqdn"]
    )
    return {**told, "ticket_number": made.ticket_number}


def main():
    """Run the module."""
    options = {
        "subject": {"type": "str", "required": True},
        "message": {"type": "str", "required": True},
        "fqdn": {"type": "str"},
        "type": {"type": "str", "choices": ["contact", "abuse", "support"], "default": "support"},
    }
    registry.run(options, act)


if __name__ == "__main__":
    main()
