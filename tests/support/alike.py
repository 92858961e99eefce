"""Compare requests about known and unknown addresses: their answers must be the same, and as fast."""

import statistics
import time
from collections.abc import Callable

import httpx

Ask = Callable[[str, int], httpx.Response]
"""Sends the request with this number about a `known` or a `new` address."""
APART_MAX = 0.2
"""The median of the differences within pairs may be this part of the median time."""
SIGMAS = 4
"""How far from a half the share of pairs in which one kind was slower may be, in standard deviations."""


def compare_times(
    ask: Ask, tries: int, after: Callable[[httpx.Response], object] = lambda _: None
) -> list[httpx.Response]:
    """Send pairs of requests, one about each kind, and return the answers. Fail if one kind is clearly slower.

    The two of a pair run close together, so load of the machine meets both; which comes first alternates. A kind is slower if it is so in
    more pairs than chance explains, and by more than `APART_MAX` in the median. `after` is called with each answer, and not measured.
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
    assert not (beyond_chance and apart > APART_MAX), f"slower in {slower} of {tries} pairs, by {apart:.0%}"
    return answers
