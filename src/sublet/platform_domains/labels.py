"""Which class a label is of (docs/spec-choices.md, "Modes and prices")."""

from collections.abc import Collection

from sublet.dns.names import reserved_reason, to_unicode
from sublet.platform_domains.label_patterns import is_blocked
from sublet.platform_domains.model import Label, PlatformDomain

MODES_BY_CLASS: dict[str, tuple[str, ...]] = {
    "standard": ("free", "plus"),
    "premium": ("premium",),
    "special": ("special",),
    "reserved": (),
    "blocked": (),
}
"""Which registration modes take labels of a class, in the order in which they are tried without a choice."""


def classify(
    label: str,
    platform_domain: PlatformDomain,
    listed: Label | None,
    organization_id: int,
    patterns: Collection[str] = (),
) -> str:
    """Return the class of a label (canonical A-label): standard, premium, special, reserved or blocked.

    What the operator listed wins; then the patterns that the operator blocked; then what is reserved everywhere; then the
    length. A special label is reserved for everyone but the organizations that were granted it.
    """
    if listed is not None:
        if listed.label_class == "special" and organization_id not in listed.organization_ids:
            return "reserved"
        return listed.label_class
    if is_blocked(label, patterns):
        return "blocked"
    if reserved_reason(label) is not None:
        return "reserved"
    if len(to_unicode(label)) <= platform_domain.premium_length_max:
        return "premium"
    return "standard"
