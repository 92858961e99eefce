"""The options that all modules share."""


class ModuleDocFragment:
    """The registry and the token."""

    DOCUMENTATION = """
requirements:
  - sublet-client
options:
  url:
    description: The address of the API. By default E(SUBLET_URL).
    type: str
    required: true
  token:
    description: The token. By default E(SUBLET_TOKEN).
    type: str
    required: true
attributes:
  check_mode:
    description: Says what would change, and changes and pays nothing.
    support: full
  diff_mode:
    description: Shows the values before and after.
    support: full
"""
