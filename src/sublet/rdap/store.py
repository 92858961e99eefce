"""The SQL of RDAP: the public names. The queries leave out the other names, so that these take as long as names that don't exist."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import and_, bindparam, or_, select

from sublet.db import Query
from sublet.dns.types import GlueEntry
from sublet.platform_domains.store import platform_domains
from sublet.rdap.model import PublicName
from sublet.subdomains.store import UNPUBLISHED, read_delegation, subdomains

_NAMES = subdomains.c
_IS_LISTED = ~platform_domains.c.hidden & ~platform_domains.c.restricted
_IS_LIVE = _NAMES.trashed_at.is_(None) & _NAMES.released_at.is_(None)
_HAS_CONTENT = (_NAMES.nameserver_count > 0) | (_NAMES.record_count > 0)
_IS_SERVED = and_(_HAS_CONTENT, _NAMES.suspended_at.is_(None), ~UNPUBLISHED)
"""The condition that the DNS has the name, and its stored delegation or records (`PublicName.served`)."""


def _read_name(rows: Sequence[Sequence[Any]]) -> PublicName | None:
    if not rows:
        return None
    fqdn, nameservers, glue, ds_records, *others = rows[0]
    return PublicName(fqdn, read_delegation(nameservers, glue, ds_records), *others)


_COLUMNS = [
    _NAMES[each] for each in PublicName.__struct_fields__ if each not in ("fqdn", "delegation", "is_listed")
]
PUBLIC_NAME = Query(
    select(_NAMES.fqdn, _NAMES.nameservers, _NAMES.glue, _NAMES.ds_records, *_COLUMNS, _IS_LISTED)
    .select_from(subdomains.join(platform_domains))
    .where((_NAMES.fqdn == bindparam("name")) & _IS_LIVE & or_(_IS_LISTED, _IS_SERVED)),
    _read_name,
)
"""The public name with the fqdn `name`, or None: live, and below a platform domain that everyone sees, or in the DNS."""


def _read_glue(rows: Sequence[Sequence[Any]]) -> list[GlueEntry]:
    return [GlueEntry(**entry) for row in rows for entry in row[0]]


SERVED_GLUE = Query(
    select(_NAMES.glue).where(_NAMES.fqdn.in_(bindparam("names", expanding=True)) & _IS_LIVE & _IS_SERVED),
    _read_glue,
)
"""The glue that the DNS has of those of the names `names` that it has."""
