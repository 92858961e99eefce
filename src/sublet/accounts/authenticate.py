"""Authenticate: from a bearer token to the registrant it stands for (spec, part 5)."""

from sublet.accounts import store
from sublet.accounts.model import Registrant
from sublet.accounts.tokens import check_token, digest, is_well_formed
from sublet.db import Tx
from sublet.errors import TokenInvalid


def authenticate(tx: Tx, token_text: str) -> Registrant:
    """Return the user, organization and token that a token stands for; looked up anew at each request.

    Raises:
        TokenInvalid: a typing error (found without the database), or never issued.
        TokenRevoked: the operator revoked it.
        TokenExpired: its time is over.

    Not checked here: scopes (the edge knows which one a route needs) and the user's suspension (the verbs do).
    """
    if not is_well_formed(token_text):
        raise TokenInvalid("This is not a token of this service: check for a typing error or a missing part.")
    found = store.find_registrant(tx, digest(token_text))
    check_token(found.token if found else None, tx.now)
    assert found is not None  # noqa: S101 - check_token raised otherwise
    return found
