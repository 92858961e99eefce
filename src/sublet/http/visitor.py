"""The registrant of a browser that isn't signed in. It holds nothing and may read only public data: offers, and the availability of names."""

from datetime import UTC, datetime

from sublet.accounts.model import Organization, Registrant, User

_SINCE = datetime(1970, 1, 1, tzinfo=UTC)
VISITOR = Registrant(
    User(0, "", "", 0, None, None, None, _SINCE), Organization(0, "", "", _SINCE), token=None
)
VISITOR_OPERATIONS = ("platform_domains", "availability")
"""The endpoints that the console calls for a visitor. In the API they need a token, as all endpoints under the base path."""
