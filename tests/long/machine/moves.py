"""The moves of the machine: methods with a weight and the strategies of their arguments.

They aren't rules of hypothesis, which leaves some rules out of every run ("swarm testing"): with this many
rules, hardly any run would have all those that lead deep into a name's life. Here each step draws any move,
by weight.
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
    by_weight = st.sampled_from([name for name, (weight, _) in marked.items() for _ in range(weight)])

    @st.composite  # of all ways to say this the one with the least overhead, which is counted in millions
    def drawn(draw: st.DrawFn) -> Drawn:
        name = draw(by_weight)
        return name, {argument: draw(strategy) for argument, strategy in marked[name][1].items()}

    return drawn()
