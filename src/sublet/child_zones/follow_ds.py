"""Apply the decision about a child's request for DS records, or store its refusal: the worker's verb."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from msgspec.structs import asdict

from sublet import audit
from sublet.accounts.find import find_member
from sublet.audit import SYSTEM, list_events
from sublet.child_zones.model import Awaited, Decision, Keep, Refuse, Remove, Replace, Rules, Wait
from sublet.db import Tx
from sublet.dns.types import Delegation, DsRecord
from sublet.errors import Conflict
from sublet.health.due_checks import published_check
from sublet.health.model import DueCheck
from sublet.health.store import reschedule
from sublet.mail.letter import name_page, render
from sublet.mail.outbox import enqueue
from sublet.platform_domains.store import find_platform_domain
from sublet.structs import replace
from sublet.subdomains import delegation_store, store
from sublet.subdomains.child_state_store import AutomaticDs, CsyncState, find_automatic_ds, save_state
from sublet.subdomains.delegation_changes import CHANGES_OF_DS, FOLLOWED, last_change_by_hand
from sublet.subdomains.find import find_for_operator, lock_for_operator
from sublet.subdomains.lifecycle import is_delegated
from sublet.subdomains.model import Subdomain

REFUSED = "automatic_ds.refuse"
WAITING = "automatic_ds.wait"
RECHECK_AFTER = timedelta(minutes=5)
PROPAGATION_TIME = timedelta(hours=1)
"""How long a name is checked every `RECHECK_AFTER` while its nameservers differ. Secondaries usually transfer
a change within this time.
"""
_PROPAGATION_REFUSALS = frozenset({"servers_silent", "servers_differ", "udp_differs", "serial_too_low"})
StateT = TypeVar("StateT", AutomaticDs, CsyncState)


def find_rules(tx: Tx, subdomain_id: int) -> Rules | None:
    """Return which requests of a name are followed; None if none is."""
    subdomain = store.find_subdomain(tx, subdomain_id)
    if subdomain is None or not is_delegated(subdomain):
        return None
    platform_domain = find_platform_domain(tx, subdomain.platform_domain_id)
    known = find_automatic_ds(tx, subdomain_id)
    if platform_domain is None or platform_domain.automatic_ds == "off" or not known.enabled:
        return None
    policy, days = platform_domain.automatic_ds, platform_domain.bootstrap_days
    rules = Rules(
        rollover=policy in ("rollover", "all"),
        bootstrap=policy in ("bootstrap", "all") and known.bootstrap,
        signed_after=known.signed_at,
        changed_at=_changed_at(tx, subdomain) if subdomain.delegation.ds_records else None,
        accepted_after=timedelta(days=days) if days else None,
        awaited=_awaited(known, subdomain.generation),
    )
    is_followed = rules.rollover if subdomain.delegation.ds_records else rules.bootstrap
    return rules if is_followed else None


def _awaited(known: AutomaticDs, generation: int) -> Awaited | None:
    """Return the DS records for which a name waits, unless the wait began before the name's last change."""
    digest, since, seen_at = known.awaited_digest, known.awaited_since, known.awaited_seen_at
    if digest is None or since is None or seen_at is None or known.awaited_generation != generation:
        return None
    return Awaited(digest, since, seen_at)


def _changed_at(tx: Tx, subdomain: Subdomain) -> datetime | None:
    return last_change_by_hand(list_events(tx, "subdomain", [subdomain.id], CHANGES_OF_DS))


def plan_check(tx: Tx, identifier: str) -> DueCheck:
    """Return the check that decides about a name's DS records.

    Raises, in this order:
        NotFound: the name doesn't exist.
        Conflict: the name's DS records are not followed, or its last change is not published yet.
    """
    subdomain = find_for_operator(tx, identifier)
    if find_rules(tx, subdomain.id) is None:
        raise Conflict(
            f"The DS records of {subdomain.fqdn} are not followed: the name is not in the DNS, its user "
            "turned automatic DS off, or its platform domain doesn't follow such names. See `sublet domain "
            "show`, and `sublet domain edit --automatic-ds`."
        )
    return published_check(tx, subdomain)


def follow_child(
    tx: Tx, subdomain_id: int, generation: int, decision: Decision, rules: Rules
) -> Decision | None:
    """Apply a decision to a name's DS records, and return it. `generation` is the one that was checked.

    A change is audited, and mailed even if the user's reminders are off. A refusal is stored, and audited if
    its code differs from the last one. A wait for first DS records is audited when it begins. It ends without
    DS records when a check finds other records, or a nameserver with other records; a nameserver that doesn't
    answer only delays it. Return None, and change nothing, if the name or its rules have changed since the
    check.
    """
    subdomain = lock_for_operator(tx, str(subdomain_id))
    if subdomain.generation != generation or find_rules(tx, subdomain_id) != rules:
        return None
    known = find_automatic_ds(tx, subdomain_id)
    match decision:
        case Keep():
            after = replace(known, refusal=None, message=None, refused_since=None).without_wait()
        case Refuse():
            after = record_refusal(tx, known, decision, REFUSED)
            if decision.code != "servers_silent":
                after = after.without_wait()
        case Wait():
            after = _wait(tx, known, decision, generation)
        case Replace() | Remove():
            after = AutomaticDs(subdomain_id, known.enabled, known.bootstrap, decision.signed_at)
            _change(tx, subdomain, decision)
    save_state(tx, known, after)
    return decision


def _wait(tx: Tx, known: AutomaticDs, decision: Wait, generation: int) -> AutomaticDs:
    """Return the state of a name that waits for its first DS records. Audit the begin of the wait."""
    before = known.awaited_digest, known.awaited_generation, known.awaited_since
    if before != (decision.digest, generation, decision.since):
        details = {"ds_records": [asdict(each) for each in decision.ds_records]}
        audit.record(tx, SYSTEM, WAITING, known.subdomain_id, after=details)
    return replace(
        known,
        refusal=None,
        message=None,
        refused_since=None,
        awaited_digest=decision.digest,
        awaited_generation=generation,
        awaited_since=decision.since,
        awaited_seen_at=tx.now,
    )


def record_refusal(tx: Tx, known: StateT, refused: Refuse, action: str) -> StateT:
    """Return a name's state after a refusal. If its code differs from the last one, audit it as this action.

    If the refusal may end when the secondaries have transferred a change, check the name again soon.
    """
    since = known.refused_since if known.refusal == refused.code else tx.now
    if known.refusal != refused.code:
        details = {"refusal": refused.code, "message": refused.message}
        audit.record(tx, SYSTEM, action, known.subdomain_id, after=details)
    if refused.code in _PROPAGATION_REFUSALS and since and tx.now - since < PROPAGATION_TIME:
        reschedule(tx, [known.subdomain_id], tx.now + RECHECK_AFTER)
    return replace(known, refusal=refused.code, message=refused.message, refused_since=since)


def _change(tx: Tx, subdomain: Subdomain, decision: Replace | Remove) -> None:
    stored = subdomain.delegation
    ds_records = decision.ds_records if isinstance(decision, Replace) else ()
    delegation = Delegation(stored.nameservers, stored.glue, ds_records)
    delegation_store.update_delegation(tx, subdomain, delegation)
    audit.record(
        tx,
        SYSTEM,
        FOLLOWED,
        subdomain.id,
        before=store.delegation_columns(stored),
        after=store.delegation_columns(delegation),
    )
    user = find_member(tx, subdomain.user_id).user
    awaited_since = decision.awaited_since if isinstance(decision, Replace) else None
    message = render(
        mail_about(stored.ds_records, ds_records),
        name=user.name,
        fqdn=subdomain.fqdn,
        awaited_since=awaited_since,
        changes=lines_of_change(map(_text, stored.ds_records), map(_text, ds_records)),
    )
    # Users without reminders get this mail too, because the change may be an attack on the name.
    reference = f"automatic_ds:{subdomain.id}:{subdomain.generation + 1}"
    enqueue(tx, user, message, reference=reference, page=name_page(subdomain.fqdn))


def mail_about(before: Sequence[DsRecord], after: Sequence[DsRecord]) -> str:
    """Return the template of the mail about a change of DS records."""
    if not before:
        return "ds_first"
    return "ds_changed" if after else "ds_removed"


def lines_of_change(before: Iterable[str], after: Iterable[str]) -> list[str]:
    """Return what a change adds (`+`) and removes (`-`), for a mail."""
    old, new = list(before), list(after)
    return [
        *(f"+ {each}" for each in new if each not in old),
        *(f"- {each}" for each in old if each not in new),
    ]


def _text(record: DsRecord) -> str:
    return f"{record.key_tag} {record.algorithm} {record.digest_type} {record.digest}"
