"""How often, and how many times at once, something may be done: the limits that are not settings.

Limits that are settings are in config.py: of requests in a minute (`rate_limit_*`), which
`operations/rate_limiter.py` counts, and of changes in a day (`nameserver_changes_per_day`). How often a code
may be tried is in `sign_up/codes.py`. A verb counts against its limit in its own transaction, by the rows
that it stored. The name server and the health checks count in memory.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from sublet.errors import RateLimited

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


class Limit(NamedTuple):
    """At most `most` in any period of the length `within`."""

    most: int
    within: timedelta

    def since(self, now: datetime) -> datetime:
        """Return the start of the period that ends now."""
        return now - self.within

    def refusal(self, sentence: str) -> RateLimited:
        """Return the refusal of one more. It may be tried again after a whole period."""
        return RateLimited(sentence, retry_after_seconds=int(self.within.total_seconds()))


# Mails to one address, at the request of anyone.
MAILS_TO_ADDRESS = Limit(5, HOUR)
SIGN_IN_MAILS_TO_ADDRESS = Limit(20, HOUR)
"""All mails to the address of an account, before a further code to sign in. Higher, so that a stranger's few
requests don't keep a person from signing in.
"""
CODES_OF_NETWORK_TO_ADDRESS = Limit(5, HOUR)
"""Codes to sign up or in, at the request of one network."""
CODES_TO_ADDRESS = Limit(1, MINUTE)

# Accounts.
SIGN_UPS_OF_NETWORK = Limit(30, HOUR)
UNPROVEN_SIGN_UPS_OF_NETWORK = Limit(3, HOUR)
"""Sign-ups without a solved challenge."""
SIGN_IN_CODES_OF_NETWORK = Limit(30, HOUR)
PROGRAMS_OF_NETWORK = Limit(30, HOUR)
"""Programs that ask for a token."""
WRONG_CODES = Limit(20, DAY)
"""Wrong codes for one address, or of one user for a new address. Then no code works for a day."""
ADDRESS_CODES_OF_USER = Limit(5, HOUR)
"""Codes for a new address of the account."""

# Organizations and names.
INVITATIONS_OF_ORGANIZATION = Limit(50, DAY)
INVITATIONS_TO_ADDRESS = Limit(5, DAY)
TRANSFERS_OF_USER = Limit(50, DAY)
TRANSFER_MAILS_TO_ADDRESS = Limit(5, DAY)
TRANSFER_MAILS_OF_USER_TO_ADDRESS = Limit(1, HOUR)

# What a process counts in memory.
USER_CODES_PER_MINUTE = 10
"""Codes that people of one address or network enter to sign in a program, right or wrong."""
QUERYING_REQUESTS_MAX = 32
"""Requests that query name servers at the same time. Each opens a connection to every name server of a
zone.
"""
QUERYING_REQUESTS_PER_USER_MAX = 4
"""Such requests of one user, so that a script doesn't keep other users out."""
RESPONSES_PER_SECOND = 50
"""Equal full responses over UDP to a network: an IPv4 network of 24 bits, or an IPv6 network of 56 bits."""
NOTIFIES_PER_SECOND = 20
"""NOTIFY messages about names of one zone, and from one network. Only messages about followed names count, so
messages about other names can't starve them. The daily check finds the changes of refused messages.
"""
QUERIES_PER_SECOND = 5
"""Queries of health checks to one address."""
