"""How the machine's choices are drawn: evenly, from the seed alone.

Hypothesis' own way copies parts of one run into the next and prefers constants that it finds in the sources. The first makes
near-duplicates of runs as long as these, and by the second the same seed draws otherwise once a file has changed.
"""

from typing import Any

from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider

NAME = "sublet-even"


class EvenProvider(HypothesisProvider):
    """Draws whole numbers evenly; everything else as hypothesis does."""

    def draw_integer(self, min_value: int | None = None, max_value: int | None = None, **others: Any) -> int:
        if min_value is None or max_value is None or self._random is None:
            return super().draw_integer(min_value, max_value, **others)
        return self._random.randint(min_value, max_value)


AVAILABLE_PROVIDERS[NAME] = EvenProvider
