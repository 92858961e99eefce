"""The moves of the machine: methods with the strategies of their arguments and a weight.

They are no rules of hypothesis' own since it leaves some of the rules out of every run ("swarm testing"); with as many as there
are here, hardly a run would then have all that leads deep into a name's life. Here each step draws any move, by weight.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import strategies as st

F = TypeVar("F", bound=Callable[..., None])
Drawn = tuple[str, dict[str, Any]]


def move(weight: int, **arguments: st.SearchStrategy[Any]) -> Callable[[F], F]:
    """Mark a method as a move that is drawn with this weight among the others."""

    def mark(method: F) -> F:
        method.__dict__["move"] = (weight, arguments)
        return method

    return mark


def all_moves(machine: type) -> st.SearchStrategy[Drawn]:
    """Return the strategy of a class' moves: a method's name with its arguments."""
    marked = {name: method.move for name, method in vars(machine).items() if hasattr(method, "move")}
    strategies = {
        name: st.tuples(st.just(name), st.fixed_dictionaries(arguments))
        for name, (_, arguments) in marked.items()
    }
    by_weight = [name for name, (weight, _) in marked.items() for _ in range(weight)]
    return st.sampled_from(by_weight).flatmap(strategies.__getitem__)
