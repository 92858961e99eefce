"""The gate of a writing operation: whether a session needs a recent sign-in for it, and why (docs/gates.md).

Tokens pass every gate, because each way to a token has one: a session creates, changes and rotates tokens
behind this gate, the first token of an account follows the proof of its address, and the operator issues the
others. A token that a token creates may do no more than its creator.
"""

from typing import NamedTuple

ALWAYS, FOR_OTHER_SESSIONS, IF_PAID, NEVER = "always", "another session", "credits", "never"
"""When a gate is checked: before the body is read, and before it unless the path names the session of the
request, where the price is known, not at all.
"""


class Gate(NamedTuple):
    """When the gate of an operation is checked (`ALWAYS` …), and why then.

    With `any_method`, a sign-in by mail is enough despite passkeys.
    """

    checked: str
    reason: str
    any_method: bool = False

    @property
    def is_before_body(self) -> bool:
        """True if the gate is checked after scope and role, and before the body is read."""
        return self.checked in (ALWAYS, FOR_OTHER_SESSIONS)


def sensitive(reason: str, *, checked: str = ALWAYS, any_method: bool = False) -> Gate:
    """Return the gate of an operation that a stolen session must not send alone.

    `reason` names the damage.
    """
    return Gate(checked, reason, any_method)


def not_sensitive(reason: str) -> Gate:
    """Return the gate of an operation that needs no recent sign-in. `reason` says why not."""
    return Gate(NEVER, reason)
