"""The members of `before` and `after` in audit events that have texts of users, and which of them are erased
with a user (no SQL).

The other members are in `tests/support/declared_members.py`. A test fails if it records a member that is in
neither file.
"""

from collections.abc import Mapping

ERASED: Mapping[str, frozenset[str]] = {
    "device": frozenset({"name"}),
    "mailed_code": frozenset({"email"}),
    "name_transfer": frozenset({"to"}),
    "organization": frozenset({"name", "slug"}),
    "subdomain": frozenset({"records", "suspended_reason"}),
    "token": frozenset({"name", "networks"}),
    "transfer": frozenset({"description"}),
    "user": frozenset({"email", "name", "suspended_reason"}),
}
"""The members with personal texts, by type of object. `registry.erasure_store` erases them with the user."""
_CHOSEN_BY_CLIENTS = frozenset(
    {
        *("below", "detail", "domains", "ds_records", "fqdn", "glue", "message", "findings", "names"),
        *("nameservers", "subdomain"),
    }
)
"""The other members with values that clients choose, such as the digest of a DS record."""


def is_chosen_by_client(object_type: str, member: str) -> bool:
    """True if a client can choose the value of a member."""
    return member in _CHOSEN_BY_CLIENTS or member in ERASED.get(object_type, ())
