"""What members do with organizations: create and rename them, invite and remove members, change roles."""
