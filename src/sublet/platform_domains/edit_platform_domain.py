"""Edit a platform domain (the operator's `sublet domain edit`)."""

from typing import Any

from sublet import audit
from sublet.audit import Actor
from sublet.db import Tx
from sublet.errors import ValidationFailed, validation_failed
from sublet.platform_domains import store, zone_store
from sublet.platform_domains.find import find_platform_domain
from sublet.platform_domains.model import PlatformDomain
from sublet.platform_domains.settings import (
    APEX_FIELDS,
    PlatformDomainSettings,
    check_settings,
    default_settings,
    plain,
)


def edit_platform_domain(
    tx: Tx, actor: Actor, identifier: str, settings: PlatformDomainSettings
) -> PlatformDomain:
    """Change what is said of a platform domain; what is the same already leaves no event.

    Hiding, closing or restricting ends listing and new registrations; names held stay visible, changeable and renewable.
    A change of what the apex records are made of gives the zone a new serial. A new TTL of delegations counts from each
    name's next publication.

    Raises, in this order:
        NotFound: no such platform domain.
        ValidationFailed: nothing is said, or all wrong fields.
    """
    zone_store.lock_zone(tx, find_platform_domain(tx, identifier).id)
    found = find_platform_domain(tx, identifier)  # again: the publisher may have raised the serial meanwhile
    said = settings.given()
    if not said:
        raise ValidationFailed("Say what is to change; `sublet domain edit --help` lists what can.")
    now = {name: getattr(found, name) for name in default_settings(found.domain)}
    values, errors = check_settings({**now, **said})
    if errors:
        raise validation_failed(errors)
    after: dict[str, Any] = {name: values[name] for name in said if values[name] != now[name]}
    if after:
        if "serial" not in after and any(name in APEX_FIELDS for name in after):
            after["serial"] = found.serial % (2**32 - 1) + 1  # RFC 1982; 0 is left out, as everywhere here
        before = {name: now[name] for name in after}
        store.update_platform_domain(tx, found.id, **plain(after))
        audit.record(
            tx,
            actor,
            "platform_domain.edit",
            "platform_domain",
            found.id,
            before=plain(before),
            after=plain(after),
        )
    return find_platform_domain(tx, str(found.id))
