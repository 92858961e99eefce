"""Apply the decision about a child's CSYNC record, or store its refusal: the worker's verb."""

from sublet.accounts.find import find_member
from sublet.audit import SYSTEM
from sublet.child_zones.follow_ds import lines_of_change, record_refusal
from sublet.child_zones.model import Change, CsyncDecision, Keep, Refuse, ReplayGuard
from sublet.db import Tx
from sublet.dns.types import Delegation
from sublet.errors import Conflict, FieldError, ValidationFailed
from sublet.health.due_checks import published_check, target_of
from sublet.health.model import DueCheck, Level, Report, Target
from sublet.health.observe import glue_addresses
from sublet.mail.letter import name_page, render
from sublet.mail.outbox import enqueue
from sublet.platform_domains.store import find_platform_domain
from sublet.structs import replace
from sublet.subdomains import store
from sublet.subdomains.child_state_store import CsyncState, find_automatic_ds, find_csync_state, save_state
from sublet.subdomains.delegation_changes import CSYNC
from sublet.subdomains.find import find_for_operator, lock_for_operator
from sublet.subdomains.lifecycle import is_delegated
from sublet.subdomains.model import Subdomain, UpdateNameservers
from sublet.subdomains.nameservers import (
    find_enclosed_nameservers,
    platform_domains_above,
    unregistered_errors,
)
from sublet.subdomains.update_nameservers import apply_change, changed_delegation

REFUSED = "csync.refuse"


def find_replay_guard(tx: Tx, subdomain_id: int) -> ReplayGuard | None:
    """Return the serial and the signature of the last change that was followed; None if the name isn't
    followed, or has no DS records.
    """
    subdomain = store.find_subdomain(tx, subdomain_id)
    if subdomain is None or not is_delegated(subdomain) or not subdomain.delegation.ds_records:
        return None
    platform_domain = find_platform_domain(tx, subdomain.platform_domain_id)
    if platform_domain is None or not platform_domain.csync:
        return None
    if not find_automatic_ds(tx, subdomain_id).enabled:
        return None
    known = find_csync_state(tx, subdomain_id)
    return ReplayGuard(known.serial, known.signed_at)


def plan_check(tx: Tx, identifier: str) -> DueCheck:
    """Return the check that decides about a name's nameservers.

    Raises, in this order:
        NotFound: the name doesn't exist.
        Conflict: the name's CSYNC record is not followed, or its last change is not published yet.
    """
    subdomain = find_for_operator(tx, identifier)
    if find_replay_guard(tx, subdomain.id) is None:
        raise Conflict(
            f"The CSYNC record of {subdomain.fqdn} is not followed: the name is not in the DNS, has no DS "
            "records, its user turned automatic DS off, or its platform domain doesn't follow such "
            "records. See `sublet domain show`, and `sublet domain edit --csync`."
        )
    return published_check(tx, subdomain)


def plan_change(tx: Tx, subdomain_id: int, change: Change) -> Target | Refuse:
    """Return the changed delegation of a name as the target of a check; or a refusal if the registry's rules
    forbid the change.
    """
    subdomain = find_for_operator(tx, str(subdomain_id))
    delegation, errors = changed_delegation(subdomain, _command(change))
    if not errors:
        above = platform_domains_above(tx, subdomain.fqdn, delegation.nameservers)
        enclosed = find_enclosed_nameservers(tx, subdomain.fqdn, delegation.nameservers, above)
        kept = subdomain.delegation.nameservers
        errors = tuple(
            unregistered_errors(
                subdomain.fqdn, enclosed, delegation.nameservers, kept, SYSTEM, subdomain.user_id
            )
        )
    if errors:
        return _not_accepted(errors[0])
    return target_of(tx, replace(subdomain, delegation=delegation))


def refuse_if_worse(present: Report, planned: Report) -> Refuse | None:
    """Return a refusal if the planned delegation has an error or warning that the present one doesn't have;
    else None.
    """
    known = {(each.code, each.subject) for each in present.findings}
    worse = [
        each
        for each in planned.findings
        if each.level != Level.NOTICE and (each.code, each.subject) not in known
    ]
    if worse:
        sentences = " ".join(f"{each.message} {each.hint}" for each in worse)
        return Refuse("would_break", f"The new nameservers have faults. {sentences}")
    if planned.state == "unknown":
        return Refuse(
            "would_break",
            "The registry couldn't check the new nameservers. Wait for the next check.",
        )
    return None


def follow_csync(
    tx: Tx, subdomain_id: int, generation: int, decision: CsyncDecision, guard: ReplayGuard
) -> CsyncDecision | None:
    """Apply a decision to a name's nameservers and glue, and return it.

    `generation` is the one that was checked.

    A change must satisfy the rules for a change by the user; otherwise the returned decision is a refusal. A
    change is audited, and mailed even if the user's reminders are off. A refusal is stored, and audited if
    its code differs from the last one. Return None, and change nothing, if the name, its settings or its
    CSYNC state have changed since the checks. Not checked: the number of changes in a day.
    """
    subdomain = lock_for_operator(tx, str(subdomain_id))
    if subdomain.generation != generation or find_replay_guard(tx, subdomain_id) != guard:
        return None
    known = find_csync_state(tx, subdomain_id)
    if isinstance(decision, Change):
        try:
            with tx.savepoint():
                _change(tx, subdomain, decision)
        except ValidationFailed as error:
            decision = _not_accepted(error.errors[0])
    match decision:
        case Keep():
            after = replace(known, refusal=None, message=None, refused_since=None)
        case Change():
            after = CsyncState(subdomain_id, decision.serial, decision.signed_at)
        case Refuse():
            after = record_refusal(tx, known, decision, REFUSED)
    save_state(tx, known, after)
    return decision


def _command(change: Change) -> UpdateNameservers:
    return UpdateNameservers(nameservers=change.nameservers, glue=change.glue)


def _not_accepted(error: FieldError) -> Refuse:
    return Refuse(
        "not_accepted",
        f"The registry doesn't accept the change that the zone asks for. {error.field}: {error.message}",
    )


def _change(tx: Tx, subdomain: Subdomain, change: Change) -> None:
    user = find_member(tx, subdomain.user_id).user
    delegation = apply_change(tx, SYSTEM, user, subdomain, _command(change), action=CSYNC)
    changes = lines_of_change(_lines(subdomain.delegation), _lines(delegation))
    message = render("nameservers_changed", name=user.name, fqdn=subdomain.fqdn, changes=changes)
    # Users without reminders get this mail too, because the change may be an attack on the name.
    reference = f"csync:{subdomain.id}:{subdomain.generation + 1}"
    enqueue(tx, user, message, reference=reference, page=name_page(subdomain.fqdn))


def _lines(delegation: Delegation) -> list[str]:
    glue = glue_addresses(delegation)
    return [" ".join([host, *glue.get(host, ())]) for host in delegation.nameservers]
