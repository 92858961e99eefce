"""The registrant of console requests without a session, who may only list platform domains and check
availability.
"""

from datetime import UTC, datetime

from sublet.accounts.model import Organization, Registrant, User

_SINCE = datetime(1970, 1, 1, tzinfo=UTC)
ANONYMOUS = Registrant(
    User(0, "", "", 0, None, None, None, _SINCE), Organization(0, "", "", _SINCE), token=None
)
ANONYMOUS_OPERATIONS = ("platform_domains", "availability")
"""The names of the operations that the console calls without a session. In the API they need a token, like
all under the base path.
"""
