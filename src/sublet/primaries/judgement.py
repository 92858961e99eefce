"""Compare the served records with the sent records, and define the messages about
failures for users (rules).
"""

from collections.abc import Mapping

from sublet.dns.difference import matches
from sublet.dns.types import Record
from sublet.primaries.publisher_transactions import Item, Result

_RETRIED = "The registry tries again."
_OPERATOR = "The operator has to correct this."
IN_USE = f"The name is in use: the zone has records of it that the registry did not write. {_OPERATOR}"
NOT_APPLIED = f"The name server refused this change. {_OPERATOR}"
PARTIAL = f"The name server accepted this change, but does not serve all of it yet. {_RETRIED}"
_ZONE = "The registry can't publish changes in this zone right now"
SENTENCES = {
    "unreachable": f"{_ZONE}: its name server can't be reached. {_RETRIED}",
    "no_answer": f"{_ZONE}: its name server does not answer. {_RETRIED}",
    "key": f"{_ZONE}: its name server does not accept the registry's key. {_OPERATOR}",
    "clock": f"{_ZONE}: the clocks of the registry and its name server differ. {_OPERATOR}",
    "refused": f"{_ZONE}: its name server refuses changes. {_OPERATOR}",
    "no_updates": f"{_ZONE}: its name server accepts no updates of the zone. {_OPERATOR}",
    "zone": f"{_ZONE}: its name server does not have the zone. {_OPERATOR}",
    "failure": f"{_ZONE}: its name server fails. {_RETRIED}",
    "not_understood": f"{_ZONE}: its name server does not support this update. {_OPERATOR}",
    "unsigned": f"{_ZONE}: its name server sent an answer without a valid signature. {_OPERATOR}",
    "fence": f"{_ZONE}: something else changed the zone. {_RETRIED}",
    "read_back": f"{_ZONE}: its name server does not answer for the changed names. {_RETRIED}",
    "too_large": f"{_ZONE}: its name server sends too much. {_OPERATOR}",
    "settings": f"{_ZONE}: its name server is not set up. {_OPERATOR}",
}
"""The message to users for each cause that stops a whole zone. docs/operating/trouble.md explains the causes
to operators.
"""


def owners_expected_empty(item: Item) -> frozenset[str]:
    """Return the owners that should have no records, and that have or may have records of ours."""
    return item.owners - {record.owner for record in item.desired}


def judge(item: Item, served: Mapping[str, tuple[Record, ...]], serial: int) -> Result:
    """Return a success if the server serves exactly the desired records and no older records; otherwise
    return a failure.
    """
    # The name itself may be an owner without records, and `served` has the records of its other owners under
    # it.
    empty = owners_expected_empty(item)
    orphaned = [owner for owner in empty if any(record.owner == owner for record in served[owner])]
    if orphaned or not matches(item.desired, served[item.fqdn]):
        return Result(item, error=PARTIAL, cause="partial")
    return Result(item, serial=serial)
