"""Which name a request means: platform_domain_id, domain, label and fqdn put together (spec, part 4, POST /subdomains)."""

from functools import lru_cache

from sublet.counted import counted
from sublet.dns.names import (
    INPUT_CHARACTERS_MAX,
    InvalidName,
    is_idn,
    parse_domain_name,
    parse_label,
    to_unicode,
)
from sublet.errors import FieldError
from sublet.platform_domains.model import PlatformDomain
from sublet.subdomains.model import Register

NAMES_REMEMBERED = 4096
"""Of how many texts the name is remembered: most requests are about the same ones."""


def canonical_domain(text: str) -> str | None:
    """Return a domain name as it is stored (lower case, A-labels, no final dot), or None when it can't be one."""
    # A longer text must not stay in the cache: 4,096 of 64 KiB would take 256 MiB.
    return _canonical_domain(text) if len(text) <= INPUT_CHARACTERS_MAX else None


@lru_cache(NAMES_REMEMBERED)
def _canonical_domain(text: str) -> str | None:
    try:
        return parse_domain_name(text)
    except InvalidName:
        return None


def label_of(
    command: Register, platform_domain: PlatformDomain | None
) -> tuple[str | None, list[FieldError]]:
    """Return the canonical label that a request means, with every reason why it means none.

    Codes in the order in which they are checked: `label_required`, `label_invalid` (also where the platform domain takes
    no IDN), `fqdn_mismatch`, `label_too_short`. Without a platform domain only the label itself is checked.
    """
    errors: list[FieldError] = []
    label = _parse(command.label, "label", errors) if command.label is not None else None
    if command.fqdn is not None and platform_domain is not None:
        from_fqdn = _label_from_fqdn(command.fqdn, platform_domain, errors)
        if from_fqdn is not None and label is not None and from_fqdn != label:
            errors.append(
                FieldError(
                    "fqdn", "fqdn_mismatch", "`fqdn` and `label` name different labels; send one of them."
                )
            )
        label = label if command.label is not None else from_fqdn
    elif command.label is None and command.fqdn is None:
        errors.append(FieldError("label", "label_required", "Give a `label`, or the full name as `fqdn`."))
    if label is not None and platform_domain is not None:
        field = "label" if command.label is not None else "fqdn"
        if is_idn(label) and not platform_domain.idn:
            errors.append(
                FieldError(
                    field,
                    "label_invalid",
                    "This platform domain takes ASCII labels only. Take another label.",
                )
            )
        if len(to_unicode(label)) < platform_domain.label_length_min:
            shortest = platform_domain.label_length_min
            errors.append(
                FieldError(
                    field,
                    "label_too_short",
                    f"Labels here have at least {counted(shortest, 'character')}. Take a longer one.",
                )
            )
    return label, errors


def name_above(owner: str, zone: str) -> str:
    """Return the only name at or above an owner below a zone that can be registered there: a label and the zone."""
    return f"{owner.removesuffix(f'.{zone}').rpartition('.')[2]}.{zone}"


def _parse(text: str, field: str, errors: list[FieldError]) -> str | None:
    try:
        return parse_label(text)
    except InvalidName as error:
        errors.append(FieldError(field, "label_invalid", str(error)))
        return None


def _label_from_fqdn(text: str, platform_domain: PlatformDomain, errors: list[FieldError]) -> str | None:
    fqdn = canonical_domain(text)
    suffix = "." + platform_domain.domain
    if fqdn == platform_domain.domain:
        errors.append(
            FieldError("fqdn", "label_required", "This is the platform domain itself. Put a label before it.")
        )
        return None
    if fqdn is None or not fqdn.endswith(suffix):
        # What is wrong with it is found below, at its first label; a good name elsewhere is a mismatch.
        if fqdn is None:
            return _parse(text.removesuffix(".").removesuffix(suffix), "fqdn", errors)
        errors.append(
            FieldError(
                "fqdn",
                "fqdn_mismatch",
                "`fqdn` does not lie under the platform domain that is selected. Send one of the two.",
            )
        )
        return None
    return _parse(fqdn.removesuffix(suffix), "fqdn", errors)
