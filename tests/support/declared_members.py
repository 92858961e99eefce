"""Find members of audit events that `sublet.audit_members` doesn't declare."""

from sqlalchemy import select

from sublet.audit import audit_events
from sublet.audit_members import is_declared
from sublet.db import Tx


def refuse_undeclared(tx: Tx) -> None:
    """Fail if an event has a member that is declared neither as erased nor as kept
    when its user is deleted.
    """
    events = audit_events.c
    found = {
        (object_type, name)
        for object_type, *sides in tx.connection.execute(
            select(events.object_type, events.before, events.after)
        )
        for members in sides
        for name in members or ()
        if not is_declared(object_type, name)
    }
    assert found == set(), (
        f"declare {sorted(found)} in src/sublet/audit_members.py, and erase them if they are personal"
    )
