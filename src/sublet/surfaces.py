"""Every operation, by its surface, in the order of the documentation.

The operations of a noun are in its `api.py`.
"""

from itertools import chain

from sublet.accounts import api as accounts
from sublet.accounts.tokens import api as tokens
from sublet.child_zones import api as child_zones
from sublet.credits import api as credits_
from sublet.health import api as health
from sublet.operations.operation import Operation
from sublet.organizations import api as organizations
from sublet.platform_domains import api as platform_domains
from sublet.rdap import api as rdap
from sublet.sign_in import api as sign_in
from sublet.sign_in.devices import api as devices
from sublet.sign_up import api as sign_up
from sublet.subdomains import api as subdomains
from sublet.subdomains.dates import api as dates
from sublet.subdomains.delegation import api as delegation
from sublet.subdomains.records import api as records
from sublet.subdomains.transfers import api as transfers
from sublet.subdomains.update_keys import api as update_keys
from sublet.tickets import api as tickets

API_OPERATIONS: tuple[Operation, ...] = tuple(
    chain(
        accounts.api,
        credits_.api,
        platform_domains.api,
        subdomains.usage,
        tokens.api,
        organizations.api,
        sign_in.sessions,
        sign_in.passkeys,
        devices.api,
        subdomains.api,
        delegation.api,
        health.api,
        dates.api,
        child_zones.api,
        records.api,
        update_keys.api,
        transfers.api,
        tickets.api,
    )
)
"""The operations under the base path, in the order of part 4 of the spec."""
AUTH_OPERATIONS: tuple[Operation, ...] = tuple(
    chain(sign_up.open_api, organizations.open_api, sign_in.open_api, devices.open_api)
)
"""The operations under `/auth/`, which need no token."""
OPERATIONS = (*API_OPERATIONS, *AUTH_OPERATIONS)
RDAP_OPERATIONS: tuple[Operation, ...] = tuple(rdap.api)
"""The operations of RDAP, for which the OpenAPI document and the clients have no place."""
