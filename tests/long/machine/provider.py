"""How the machine draws: evenly, from the seed alone.

Hypothesis copies parts of one run into the next, which makes near-duplicates of long runs. It also prefers
constants found in the sources, so that a seed would draw something else after any file has changed.
"""

from typing import Any

from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider

NAME = "sublet-even"


class EvenProvider(HypothesisProvider):
    """Draws integers evenly; everything else like hypothesis."""

    def draw_integer(self, min_value: int | None = None, max_value: int | None = None, **others: Any) -> int:
        if min_value is None or max_value is None or self._random is None:
            return super().draw_integer(min_value, max_value, **others)
        return self._random.randint(min_value, max_value)


AVAILABLE_PROVIDERS[NAME] = EvenProvider
