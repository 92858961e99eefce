"""All checks: of what is stored, and of what should be running."""

from sublet import audit
from sublet.db import Tx
from sublet.doctor.audit import check_audit
from sublet.doctor.belonging import check_belonging
from sublet.doctor.credits import check_credits
from sublet.doctor.lives import check_lives, check_milestones
from sublet.doctor.model import Violation
from sublet.doctor.names import check_names
from sublet.doctor.running import check_mail, check_sweep, check_watch
from sublet.doctor.zones import check_zones


def check_all(tx: Tx, *, free_quota: int) -> list[Violation]:
    """Return every broken invariant of the stored data. `free_quota` is the setting, in names."""
    return [
        *check_audit(tx),
        *check_belonging(tx),
        *check_credits(tx),
        *check_names(tx, free_quota=free_quota),
        *check_lives(tx),
        *check_milestones(tx),
        *check_zones(tx),
    ]


def check_copy(tx: Tx, *, free_quota: int) -> list[Violation]:
    """Return every broken invariant of a copy, as of its newest change: nothing that waits there is late."""
    newest = audit.newest_at(tx)
    return check_all(Tx(tx.connection, min(tx.now, newest or tx.now)), free_quota=free_quota)


def check_running(tx: Tx) -> list[Violation]:
    """Return what is late or stopped. Don't call this for a registry without a worker, such as a copy."""
    return [*check_sweep(tx), *check_mail(tx), *check_watch(tx)]
