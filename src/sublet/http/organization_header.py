"""The header `Sublet-Organization`, which names the organization that a session acts for.

A header, and no value of the session: two tabs of a browser share a session, and each acts for what its own page shows.
"""

from starlette.datastructures import Headers

from sublet.errors import InvalidRequest
from sublet.ids import parse_id

ORGANIZATION_HEADER = "Sublet-Organization"


def read_organization(fields: Headers, *, is_of_session: bool) -> int | None:
    """Return the id in the header, or None without the header.

    Raises:
        InvalidRequest: a request with a token has the header, or it isn't one id.
    """
    values = fields.getlist(ORGANIZATION_HEADER)
    if not values:
        return None
    if not is_of_session:
        raise InvalidRequest(
            f"A token acts for the organization that it was created for. Leave out {ORGANIZATION_HEADER}, or use another token."
        )
    organization_id = parse_id(values[0]) if len(values) == 1 else None
    if organization_id is None:
        raise InvalidRequest(f"Send {ORGANIZATION_HEADER} once, with the id of an organization.")
    return organization_id
