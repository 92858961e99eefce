"""The free names and credits that a plan needs in total.

Terraform plans each name separately, but one process of the provider sees all names.
"""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from tf.utils import Diagnostics


@dataclass(frozen=True, slots=True)
class Means:
    """What the account had when the plan began: free names left of its limit, and the balance in credits."""

    free_names_left: int
    free_names_limit: int
    credit_balance: int


class Registrations:
    """The names that a run has in its state (`held`), and those that it creates, with
    their modes and prices.
    """

    def __init__(self) -> None:
        self.held: set[str] = set()
        self._planned: dict[str, tuple[str, int]] = {}
        self._means: Means | None = None
        self._reported: set[str] = set()
        self._lock = Lock()

    def add(
        self, diagnostics: Diagnostics, fqdn: str, mode: str, price: int, ask: Callable[[], Means | None]
    ) -> None:
        """Count a name, and report once if all of them so far need more than there is.

        Too few credits are an error. Too few free names are a warning, because the same run may destroy some.
        Terraform calls this from several threads. `ask` returns None if the token can't see the account: then
        nothing is reported.
        """
        with self._lock:
            means = self._means = self._means or ask()
            self._planned[fqdn] = (mode, price)
            if means is None:
                return
            free_names = sum(each == "free" for each, _ in self._planned.values())
            price_sum = sum(each for _, each in self._planned.values())
            if free_names > means.free_names_left and "free" not in self._reported:
                self._reported.add("free")
                diagnostics.add_warning(
                    f"This plan needs more free names than you have left ({means.free_names_left} of "
                    f"{means.free_names_limit}). The apply stops half-way unless it destroys others first. "
                    "Leave some out."
                )
            if price_sum > means.credit_balance and "credits" not in self._reported:
                self._reported.add("credits")
                diagnostics.add_error(
                    f"The new names of this plan cost more than the balance of {means.credit_balance} "
                    "credits. Buy credits, or leave names out.",
                    path=["max_credits"],
                )
