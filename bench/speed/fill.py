"""Fill a registry fast: copies of the rows that verbs made, under other names, numbers and dates, by the database itself.

Everything but tokens follows from a seed. Names go to users of 25, and as many as 10,000 to one; six of ten are free. `sublet doctor`
finds nothing wrong with the result.
"""

import hashlib
import random
from collections import Counter
from dataclasses import dataclass, field

from speed.copies import Item, open_copies
from speed.template import CREDITS, LABELS, PAID, PRICE, make_template
from sublet.accounts.tokens import digest, new_token

NAMES_OF_A_USER = 25
NAMES_OF_ONE = 10_000
TICKETS_MAX = 100_000
DOMAINS = 1000
SENDING = 64
"""How many users have tokens that are known, and send the requests: those after the first."""
SHIFT_SECONDS = 2 * 86_400
"""Over how long a time the names of a kind were registered."""
_LETTERS = "abcdefghijklnopqrstuvwxyz"
_DIGITS = str.maketrans("01234567", "23456789")


@dataclass(slots=True)
class Registry:
    """A filled registry: what workloads need to know of it. Users are numbered from 0, who has the most names."""

    url: str
    names: int
    seed: int
    tokens: list[str] = field(default_factory=list)
    """Of the users 0 to 64."""
    held: dict[int, list[str]] = field(default_factory=dict)
    """The labels of the free and paid names of these users, in the order in which they got them."""
    renewable: list[tuple[int, str]] = field(default_factory=list)
    """User and label of names whose renewal is open."""
    tickets: list[tuple[int, int]] = field(default_factory=list)
    """User and id of tickets."""


def fill(url: str, names: int, *, seed: int = 1, domains: int = DOMAINS, renewable: int = 0) -> Registry:
    """Fill an empty database with so many names, and so many more whose renewal is open, of the users that send requests."""
    kinds = make_template(url, domains)
    draws = random.Random(seed)  # noqa: S311 - no secret
    registry = Registry(url, names, seed, [new_token().reveal() for _ in range(SENDING + 1)])
    count = names - len(LABELS)
    most = min(NAMES_OF_ONE, names // 3)
    users = max(SENDING + 1, (count - most) // NAMES_OF_A_USER + 1)
    spent: Counter[int] = Counter()
    items: dict[str, list[Item]] = {kind: [] for kind in ("old", "plus", "free")}

    def add(number: int, kind: str, user: int) -> str:
        label = _label(draws, number)
        spent[user] += PRICE if kind in PAID else 0
        shift = -draws.randrange(SHIFT_SECONDS)
        items[kind].append(Item(len(items[kind]), label, user, CREDITS - spent[user], shift))
        return label

    for number in range(renewable):
        user = 1 + number % SENDING
        registry.renewable.append((user, add(number, "old", user)))
    for number in range(count):
        user = 0 if number < most else 1 + (number - most) % (users - 1)
        label = add(renewable + number, "plus" if draws.random() < 0.4 else "free", user)
        if user <= SENDING:
            registry.held.setdefault(user, []).append(label)
    asked = [
        Item(number, "", 1 + number % (users - 1), 0, -draws.randrange(SHIFT_SECONDS))
        for number in range(min(names, TICKETS_MAX))
    ]
    people = [
        Item(user, "", user, CREDITS - spent[user], -2 * SHIFT_SECONDS, _digest(registry, user))
        for user in range(users)
    ]
    with open_copies(url, kinds, LABELS) as copies:
        copies.add("user", people)
        for kind in ("old", "plus", "free"):
            copies.add(kind, items[kind])
        first = copies.add("ticket", asked)["tickets"]
        registry.tickets = [(each.user, first + each.n) for each in asked if each.user <= SENDING]
    return registry


def _label(draws: random.Random, number: int) -> str:
    """Return a label that no other number has, anywhere in the alphabet: letters by lot, then the number, written with 2 to 9.

    None has a letter or a digit that looks like another, so no name has a skeleton to be stored.
    """
    return "".join(draws.choices(_LETTERS, k=4)) + f"{number:o}".translate(_DIGITS)


def _digest(registry: Registry, user: int) -> str:
    """Return what is stored of a user's token; those that send nothing have one that nobody knows."""
    if user < len(registry.tokens):
        return digest(registry.tokens[user])
    return hashlib.sha256(f"{registry.seed}:{user}".encode()).hexdigest()
