"""Compare the answer times of requests about known and unknown addresses, which must not tell which addresses
have accounts.
"""

import statistics
import time
from collections.abc import Callable

import httpx

Ask = Callable[[str, int], httpx.Response]
"""Sends a request about a `known` or a `new` address. The number tells it which address."""
DIFFERENCE_MAX = 0.2
"""The maximum of the median difference within pairs, as a part of the median time."""
SIGMAS = 4
"""The maximum deviation from one half of the share of pairs in which one kind was slower, in standard
deviations.
"""


def compare_times(
    ask: Ask, tries: int, after: Callable[[httpx.Response], object] = lambda _: None
) -> list[httpx.Response]:
    """Send pairs of requests, one about each kind of address, and return the answers.

    Fail if one kind is slower.

    The requests of a pair follow each other directly, in alternating order, so that a busy machine slows
    both. A kind is slower if more pairs say so than chance explains, and if the median difference exceeds
    `DIFFERENCE_MAX`. `after` is called with each answer, unmeasured.
    """
    answers, differences, all_seconds = list[httpx.Response](), list[float](), list[float]()
    for number in range(tries):
        taken: dict[str, float] = {}
        for kind in ("known", "new") if number % 2 else ("new", "known"):
            began = time.perf_counter()
            answers.append(ask(kind, number))
            taken[kind] = time.perf_counter() - began
            after(answers[-1])
        differences.append(taken["known"] - taken["new"])
        all_seconds += taken.values()
    slower = sum(each > 0 for each in differences)
    beyond_chance = abs(slower - tries / 2) > SIGMAS * (tries / 4) ** 0.5
    apart = abs(statistics.median(differences)) / statistics.median(all_seconds)
    assert not (beyond_chance and apart > DIFFERENCE_MAX), (
        f"slower in {slower} of {tries} pairs, by {apart:.0%}"
    )
    return answers
