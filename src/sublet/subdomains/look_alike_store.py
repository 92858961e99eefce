"""All SQL of names that look alike: who holds one of this skeleton, and whether the stored skeletons are right."""

from sqlalchemy import bindparam, select, union_all

from sublet.db import Prepared, Tx
from sublet.platform_domains.model import PlatformDomain
from sublet.subdomains.store import subdomains

_ANOTHERS = (subdomains.c.user_id != bindparam("asking")) & subdomains.c.released_at.is_(None)
# The skeleton of most names is their label, and not stored: the index of names has them already.
_HELD = Prepared(
    union_all(
        select(subdomains.c.id).where((subdomains.c.fqdn == bindparam("name")) & _ANOTHERS),
        select(subdomains.c.id).where(
            (subdomains.c.skeleton == bindparam("looks"))
            & (subdomains.c.platform_domain_id == bindparam("of"))
            & _ANOTHERS
        ),
    )
)


def is_held_by_another(tx: Tx, platform_domain: PlatformDomain, skeleton: str, user_id: int) -> bool:
    """Does somebody else hold a name of this skeleton under the platform domain: live, in the trash or cooling off?"""
    name = f"{skeleton}.{platform_domain.domain}"
    return bool(_HELD.all(tx, asking=user_id, name=name, looks=skeleton, of=platform_domain.id))
