"""The header `Sublet-Organization`, which names the organization that a session acts for.

The organization isn't stored in the session, because two tabs of a browser share a session and may act for different organizations.
"""

from starlette.datastructures import Headers

from sublet.errors import InvalidRequest
from sublet.ids import parse_id

ORGANIZATION_HEADER = "Sublet-Organization"


def read_organization(fields: Headers, *, is_of_session: bool) -> int | None:
    """Return the id in the header, or None without the header.

    Raises:
        InvalidRequest: a request with a token has the header, or the header isn't a single id.
    """
    values = fields.getlist(ORGANIZATION_HEADER)
    if not values:
        return None
    if not is_of_session:
        raise InvalidRequest(
            f"{ORGANIZATION_HEADER} is for sessions. Leave it out: a token acts for the organization that it was created for."
        )
    organization_id = parse_id(values[0]) if len(values) == 1 else None
    if organization_id is None:
        raise InvalidRequest(
            f"{ORGANIZATION_HEADER} is malformed or repeated. Send it once, with the id of an organization."
        )
    return organization_id
