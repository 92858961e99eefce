"""Parse the names in requests: the platform domain and label of a registration, and search texts (spec, part
4).
"""

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final

from sublet.accounts.model import User
from sublet.audit import Actor
from sublet.counted import counted
from sublet.db import Tx
from sublet.dns.delegation import valid_hosts
from sublet.dns.names import (
    INPUT_CHARACTERS_MAX,
    InvalidName,
    ancestors,
    is_at_or_below,
    is_idn,
    map_text,
    parse_domain_name,
    parse_label,
    shown,
    to_unicode,
)
from sublet.errors import FieldError, PlatformDomainNotFound, TokenRestricted
from sublet.platform_domains import store as platform_domain_store
from sublet.platform_domains.model import PlatformDomain, is_visible
from sublet.subdomains.model import Register

NAMES_CACHED: Final = 4096
COMPARED_MAX: Final = 200
"""The maximum number of platform domains, newest first, that are compared with an unknown domain. A
comparison takes about 50 µs.
"""
RESEMBLANCE_MIN: Final = 0.7
"""The minimum `difflib` ratio for a suggestion. A domain with one wrong letter or TLD reaches it; a shared
TLD alone doesn't.
"""
_DOT: Final = re.compile("[.\u3002\uff0e\uff61]")
"""A full stop, and the three characters that UTS 46 maps to one (section 2.3)."""
_LIST_ADVICE: Final = "Choose one from the list of platform domains."


def canonical_domain(text: str) -> str | None:
    """Return a domain name as it is stored (lower case, A-labels, no final dot), or None if it is invalid."""
    # Don't cache longer texts: 4,096 texts of 64 KiB would take 256 MiB.
    return _canonical_domain(text) if len(text) <= INPUT_CHARACTERS_MAX else None


@lru_cache(NAMES_CACHED)
def _canonical_domain(text: str) -> str | None:
    try:
        return parse_domain_name(text)
    except InvalidName:
        return None


def find_named_platform_domains(tx: Tx, command: Register) -> list[PlatformDomain]:
    """Return the platform domains that a registration names, and those at or above its name and its
    nameservers.

    The longest name is the first. Not checked: which of them the user can see.
    """
    names = {command.domain and canonical_domain(command.domain)}
    for name in (_name_or_rest(command.fqdn), *valid_hosts(command.nameservers)):
        if name is not None:
            names.update((name, *ancestors(name)))
    return platform_domain_store.find_platform_domains_among(
        tx, [name for name in names if name], command.platform_domain_id
    )


def _name_or_rest(fqdn: str | None) -> str | None:
    """Return the canonical name, or the part after an invalid first label, which can still be a platform
    domain.
    """
    return None if fqdn is None else canonical_domain(fqdn) or _split(fqdn)[1]


def _split(fqdn: str) -> tuple[str, str | None]:
    """Return the first label of a name as it was sent, and the canonical form of the rest; None if the rest
    is invalid.
    """
    label, *rest = _DOT.split(fqdn, maxsplit=1)
    return label, canonical_domain("".join(rest))


def resolve_name(
    tx: Tx, actor: Actor, user: User, command: Register, found: Sequence[PlatformDomain]
) -> tuple[PlatformDomain | None, str | None, list[FieldError]]:
    """Return the platform domain, canonical label and field errors of a registration.

    `found` is the result of `find_named_platform_domains`. The platform domain is taken from
    `platform_domain_id` or `domain`, or else is the longest suffix of `fqdn` that the user can see. The label
    is taken from `label` or `fqdn`. Codes: `platform_domain_required`, `fqdn_mismatch`, then the codes of
    `label_of`.

    Raises, in this order:
        PlatformDomainNotFound: the user can't see such a platform domain with this token. Hidden, restricted
            and missing platform domains raise the same error. The message suggests a similar platform domain
            that the user can see.
        TokenRestricted: the token is for other names.
    """
    fqdn = canonical_domain(command.fqdn) if command.fqdn is not None else None
    platform_domain, errors = _select_platform_domain(tx, actor, user, command, found)
    label, label_errors = label_of(command, fqdn, platform_domain)
    if platform_domain is not None and label is not None:
        _refuse_other_name(actor, f"{label}.{platform_domain.domain}")
    return platform_domain, label, [*errors, *label_errors]


def resolve_for_operator(
    command: Register, found: Sequence[PlatformDomain]
) -> tuple[PlatformDomain | None, str | None, list[FieldError]]:
    """Return the platform domain, label and field errors for the operator's `command.fqdn`.

    Hidden and restricted platform domains are included.

    Raises:
        PlatformDomainNotFound: the name is not below a platform domain.
    """
    sent = command.fqdn or ""
    name = _name_or_rest(sent)
    platform_domain = next((each for each in found if name and is_at_or_below(name, each.domain)), None)
    if platform_domain is None:
        raise PlatformDomainNotFound(
            f"`{shown(sent)}` is not below a platform domain. See `sublet domain list`."
        )
    label, errors = label_of(command, canonical_domain(sent), platform_domain)
    return platform_domain, label, errors


def _refuse_other_name(actor: Actor, fqdn: str) -> None:
    """Raise `TokenRestricted` if the token is not for the name, whether or not the name exists."""
    if not actor.restrictions.allows_name(fqdn):
        raise TokenRestricted(
            f"This token may not be used for {fqdn}. Use another token.", details={"restriction": "names"}
        )


def _select_platform_domain(
    tx: Tx, actor: Actor, user: User, command: Register, found: Sequence[PlatformDomain]
) -> tuple[PlatformDomain | None, list[FieldError]]:
    def first_visible(matches: Callable[[PlatformDomain], bool]) -> PlatformDomain | None:
        return next((each for each in found if matches(each) and _can_see(tx, actor, user, each)), None)

    selected: list[PlatformDomain] = []
    if command.platform_domain_id is not None:
        by_id = first_visible(lambda each: each.id == command.platform_domain_id)
        if by_id is None:
            raise PlatformDomainNotFound(
                f"There is no platform domain with the id {command.platform_domain_id}. {_LIST_ADVICE}"
            )
        selected.append(by_id)
    if command.domain is not None:
        domain = canonical_domain(command.domain)
        by_name = first_visible(lambda each: each.domain == domain)
        if by_name is None:
            sentence = f"There is no platform domain `{shown(command.domain)}`."
            raise PlatformDomainNotFound(f"{sentence} {_advice(tx, actor, user, command.domain)}")
        selected.append(by_name)
    if not selected and command.fqdn is not None:
        name = _name_or_rest(command.fqdn)  # if the label is invalid, `label_of` reports it
        by_suffix = first_visible(lambda each: name is not None and is_at_or_below(name, each.domain))
        if by_suffix is None:
            sentence = f"`{shown(command.fqdn)}` is not below a platform domain."
            raise PlatformDomainNotFound(f"{sentence} {_advice(tx, actor, user, command.fqdn, is_fqdn=True)}")
        selected.append(by_suffix)
    if not selected:
        return None, [
            FieldError(
                "platform_domain_id",
                "platform_domain_required",
                "Select a platform domain by `platform_domain_id`, `domain`, or the domain part of `fqdn`.",
            )
        ]
    if selected[0].id != selected[-1].id:
        return selected[0], [
            FieldError(
                "domain",
                "fqdn_mismatch",
                "`platform_domain_id` and `domain` select different platform domains. Give only one of "
                "these fields.",
            )
        ]
    return selected[0], []


def _can_see(tx: Tx, actor: Actor, user: User, platform_domain: PlatformDomain) -> bool:
    if not actor.restrictions.allows_domain(platform_domain.domain):
        return False
    needs_grant = platform_domain.restricted and not platform_domain.hidden
    granted = (
        platform_domain_store.granted_platform_domain_ids(tx, user.organization_id) if needs_grant else ()
    )
    return is_visible(platform_domain, granted)


def closest_domain(sent: str, domains: Iterable[str]) -> str | None:
    """Return the domain that is most similar to `sent`, or None if the similarity is
    below `RESEMBLANCE_MIN`.
    """
    close = difflib.get_close_matches(sent, list(domains), n=1, cutoff=RESEMBLANCE_MIN)
    return close[0] if close else None


def _advice(tx: Tx, actor: Actor, user: User, sent: str, *, is_fqdn: bool = False) -> str:
    """Return advice about an unknown domain.

    The advice reveals only platform domains that the user can see with this token.
    """
    stripped = sent.strip()
    sentences = []
    if stripped != sent:
        sentences.append("Remove the space at the beginning or end.")
    name = canonical_domain(stripped) or stripped.lower()
    visible = platform_domain_store.list_visible(tx, actor, user.organization_id, COMPARED_MAX, None)
    closest = closest_domain(name.partition(".")[2] if is_fqdn else name, (each.domain for each in visible))
    if closest is not None:
        sentences.append(f"Did you mean `{closest}`?")
    return " ".join([*sentences, _LIST_ADVICE])


def label_of(
    command: Register, fqdn: str | None, platform_domain: PlatformDomain | None
) -> tuple[str | None, list[FieldError]]:
    """Return the canonical label of a registration, and all errors in it.

    `fqdn` is the canonical `command.fqdn`, or None if that is invalid.

    Codes, in the order they are checked: `label_required`, `label_invalid` (also for an IDN, if the platform
    domain accepts no IDNs), `fqdn_mismatch`, `label_too_short`. Without a platform domain only the syntax of
    `label` is checked.
    """
    errors: list[FieldError] = []
    label = _parse(command.label, "label", errors) if command.label is not None else None
    if command.fqdn is not None and platform_domain is not None:
        from_fqdn = _label_from_fqdn(command.fqdn, fqdn, platform_domain, errors)
        if from_fqdn is not None and label is not None and from_fqdn != label:
            errors.append(
                FieldError(
                    "fqdn",
                    "fqdn_mismatch",
                    "`fqdn` and `label` have different labels. Give only one of these fields.",
                )
            )
        label = label if command.label is not None else from_fqdn
    elif command.label is None and command.fqdn is None:
        errors.append(
            FieldError("label", "label_required", "The name is missing. Give a label, or the full name.")
        )
    if label is not None and platform_domain is not None:
        field = "label" if command.label is not None else "fqdn"
        if is_idn(label) and not platform_domain.idn:
            errors.append(
                FieldError(
                    field,
                    "label_invalid",
                    "This platform domain accepts only ASCII labels. Choose another label.",
                )
            )
        if len(to_unicode(label)) < platform_domain.label_length_min:
            shortest = platform_domain.label_length_min
            errors.append(
                FieldError(
                    field,
                    "label_too_short",
                    f"Labels here have at least {counted(shortest, 'character')}. Choose a longer label.",
                )
            )
    return label, errors


def _parse(text: str, field: str, errors: list[FieldError]) -> str | None:
    try:
        return parse_label(text)
    except InvalidName as error:
        errors.append(FieldError(field, "label_invalid", str(error)))
        return None


def _label_from_fqdn(
    text: str, fqdn: str | None, platform_domain: PlatformDomain, errors: list[FieldError]
) -> str | None:
    suffix = "." + platform_domain.domain
    if fqdn is None:
        label, rest = _split(text)
        if rest != platform_domain.domain:
            label = text.removesuffix(".").removesuffix(suffix)
        return _parse(label, "fqdn", errors)
    if fqdn.endswith(suffix):
        return _parse(fqdn.removesuffix(suffix), "fqdn", errors)
    if fqdn == platform_domain.domain:
        errors.append(
            FieldError("fqdn", "label_required", "This is the platform domain itself. Put a label before it.")
        )
    else:
        errors.append(
            FieldError(
                "fqdn",
                "fqdn_mismatch",
                "`fqdn` is not below the selected platform domain. Give only `fqdn`, or the platform "
                "domain and `label`.",
            )
        )
    return None


def registrable_name(owner: str, zone: str) -> str:
    """Return the registrable name at or above an owner name in a zone: one label, then the zone."""
    return f"{owner.removesuffix(f'.{zone}').rpartition('.')[2]}.{zone}"


def search_text(typed: str) -> str:
    """Return a search text in the form of stored names (UTS 46 mapping), or in lower case if the mapping
    fails.
    """
    try:
        return map_text(typed)
    except InvalidName:
        return typed.lower()


def needs_unicode(text: str) -> bool:
    """True if a search text may occur only in the Unicode form of a name.

    Punycode keeps the ASCII characters of a label together and in order. So an ASCII text without dots occurs
    in both forms, or in none.
    """
    return "." in text or not text.isascii()


def contains(fqdn: str, text: str) -> bool:
    """True if a canonical name contains this search text, in its A-labels or its U-labels."""
    return text in fqdn or text in to_unicode(fqdn)
