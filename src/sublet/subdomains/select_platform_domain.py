"""Which platform domain a request means (spec, part 4, POST /subdomains: one of three ways to select it)."""

import difflib
from collections.abc import Iterable
from typing import Final

from sublet.accounts.model import User
from sublet.db import Tx
from sublet.dns.names import ancestors, shown
from sublet.errors import FieldError, PlatformDomainNotFound
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains.grants import is_visible
from sublet.platform_domains.model import PlatformDomain
from sublet.subdomains.model import Register
from sublet.subdomains.naming import canonical_domain

COMPARED_MAX: Final = 200
"""How many of the newest visible platform domains are compared with a wrong one: comparing takes about 50 µs each."""
RESEMBLANCE_MIN: Final = 0.7
"""By `difflib`: a wrong letter or top-level domain resembles, a common top-level domain alone doesn't."""
_LIST: Final = "GET /platform-domains lists those that you can use."


def select_platform_domain(
    tx: Tx, user: User, command: Register
) -> tuple[PlatformDomain | None, list[FieldError]]:
    """Return what platform_domain_id, domain or the domain part of fqdn selects, among those that the user sees.

    The longest suffix wins where platform domains are nested. Fields: `platform_domain_required` when nothing selects one,
    `fqdn_mismatch` when id and domain select two.

    Raises:
        PlatformDomainNotFound: hidden, not granted and missing ones can't be told apart. The message names what was sent, and a
            visible one that resembles it.
    """
    found: list[PlatformDomain] = []
    if command.platform_domain_id is not None:
        by_id = platform_domain_store.find_platform_domain(tx, command.platform_domain_id)
        if by_id is None or not _sees(tx, user, by_id):
            raise PlatformDomainNotFound(
                f"There is no platform domain with the id {command.platform_domain_id}. {_LIST}"
            )
        found.append(by_id)
    if command.domain is not None:
        domain = canonical_domain(command.domain)
        by_name = platform_domain_store.find_platform_domain_by_name(tx, domain) if domain else None
        if by_name is None or not _sees(tx, user, by_name):
            sentence = f"There is no platform domain `{shown(command.domain)}`."
            raise PlatformDomainNotFound(f"{sentence} {_advice(tx, user, command.domain)}")
        found.append(by_name)
    if not found and command.fqdn is not None:
        by_suffix = _longest_visible_suffix(tx, user, command.fqdn)
        if by_suffix is None:
            sentence = f"`{shown(command.fqdn)}` lies under no platform domain."
            raise PlatformDomainNotFound(f"{sentence} {_advice(tx, user, command.fqdn, is_fqdn=True)}")
        found.append(by_suffix)
    if not found:
        return None, [
            FieldError(
                "platform_domain_id",
                "platform_domain_required",
                "Select a platform domain by `platform_domain_id`, `domain`, or the domain part of `fqdn`.",
            )
        ]
    if found[0].id != found[-1].id:
        return found[0], [
            FieldError(
                "domain",
                "fqdn_mismatch",
                "`platform_domain_id` and `domain` select different platform domains. Send one of them.",
            )
        ]
    return found[0], []


def _sees(tx: Tx, user: User, platform_domain: PlatformDomain) -> bool:
    is_granted_to_some = platform_domain.restricted and not platform_domain.hidden
    granted = (
        platform_domain_store.granted_platform_domain_ids(tx, user.organization_id)
        if is_granted_to_some
        else ()
    )
    return is_visible(platform_domain, granted)


def _longest_visible_suffix(tx: Tx, user: User, fqdn: str) -> PlatformDomain | None:
    # Only the domain part must be a name; a bad label before it is the label's error, told as such.
    canonical = canonical_domain(fqdn) or canonical_domain(fqdn.partition(".")[2])
    if canonical is None:
        return None
    for candidate in platform_domain_store.find_platform_domains_among(
        tx, (canonical, *ancestors(canonical))
    ):
        if _sees(tx, user, candidate):
            return candidate
    return None


def closest_domain(sent: str, domains: Iterable[str]) -> str | None:
    """Return the domain that resembles the sent one most, or None if none resembles it."""
    close = difflib.get_close_matches(sent, list(domains), n=1, cutoff=RESEMBLANCE_MIN)
    return close[0] if close else None


def _advice(tx: Tx, user: User, sent: str, *, is_fqdn: bool = False) -> str:
    """Return what to do about a domain that selects nothing; it depends on what was sent and on what the user sees, on nothing else."""
    stripped = sent.strip()
    sentences = []
    if stripped != sent:
        sentences.append("It begins or ends with a space; remove that.")
    name = canonical_domain(stripped) or stripped.lower()
    visible = platform_domain_store.list_visible(tx, user.organization_id, COMPARED_MAX, None)
    closest = closest_domain(name.partition(".")[2] if is_fqdn else name, (each.domain for each in visible))
    if closest is not None:
        sentences.append(f"Did you mean `{closest}`?")
    return " ".join([*sentences, _LIST])
