"""Organizations as their members use them: members, roles, invitations."""
