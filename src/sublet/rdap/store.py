"""The SQL of RDAP."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import and_, bindparam, case, or_, select

from sublet.db import Query
from sublet.platform_domains.store import platform_domains
from sublet.rdap.model import PublicName
from sublet.subdomains.store import UNPUBLISHED, read_delegation, subdomains

_NAMES = subdomains.c
_IS_LISTED = ~platform_domains.c.hidden & ~platform_domains.c.restricted
_HAS_CONTENT = (_NAMES.nameserver_count > 0) | (_NAMES.record_count > 0)
_IS_SERVED = and_(_HAS_CONTENT, _NAMES.suspended_at.is_(None), ~UNPUBLISHED)
"""The condition that the DNS has a live name, and its stored delegation or records (`PublicName.served`)."""
_IS_PUBLIC = and_(_NAMES.fqdn == bindparam("name"), _NAMES.trashed_at.is_(None), or_(_IS_LISTED, _IS_SERVED))
_COLUMNS = [
    _NAMES[each] for each in PublicName.__struct_fields__ if each not in ("fqdn", "delegation", "is_listed")
]


def _read_name(rows: Sequence[Sequence[Any]]) -> PublicName | None:
    if not rows or not rows[0][0]:
        return None
    _, fqdn, nameservers, glue, ds_records, *others = rows[0]
    return PublicName(fqdn, read_delegation(nameservers, glue, ds_records), *others)


PUBLIC_NAME = Query(
    select(
        _IS_PUBLIC,
        _NAMES.fqdn,
        *(case((_IS_PUBLIC, _NAMES[each])) for each in ("nameservers", "glue", "ds_records")),
        *_COLUMNS,
        _IS_LISTED,
    )
    .select_from(subdomains.join(platform_domains))
    .where((_NAMES.fqdn >= bindparam("name")) & _NAMES.released_at.is_(None))
    .order_by(_NAMES.fqdn)
    .limit(1),
    _read_name,
)
"""The name with the fqdn `name` if it is public: live, and below a platform domain that everyone sees, or in
the DNS.

The query reads the first name at or after `name` in any case, so that a name that isn't public takes as long
as one that doesn't exist.
"""


DOMAINS_AMONG = Query(
    select(platform_domains.c.domain).where(
        platform_domains.c.domain.in_(bindparam("names", expanding=True))
        & platform_domains.c.removed_at.is_(None)
    ),
    lambda rows: [str(row[0]) for row in rows],
)
"""Those of the names `names` that are platform domains. The DNS reveals each of them."""
