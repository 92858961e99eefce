"""The anonymous registrant, for console requests without a session. It has no names, and may only list platform domains and check availability."""

from datetime import UTC, datetime

from sublet.accounts.model import Organization, Registrant, User

_SINCE = datetime(1970, 1, 1, tzinfo=UTC)
ANONYMOUS = Registrant(
    User(0, "", "", 0, None, None, None, _SINCE), Organization(0, "", "", _SINCE), token=None
)
ANONYMOUS_OPERATIONS = ("platform_domains", "availability")
"""The endpoints that the console calls for it. In the API they need a token, as all endpoints under the base path."""
