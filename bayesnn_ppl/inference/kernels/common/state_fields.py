"""Fields of a kernel's state, as `extra_fields` of `numpyro.infer.MCMC` asks for them by name."""

from typing import Any

from bayesnn_ppl.core.arguments import near_misses

__all__ = ["named_fields"]


def named_fields[S: tuple[Any, ...]](state: type[S]) -> type[S]:
    """A NamedTuple that says which fields it has where it is asked for another.

    NumPyro takes `state[name]` where `state.name` is missing, of which a tuple says only that its
    indices are integers.
    """
    by_index = state.__getitem__

    def getitem(self: S, index: Any) -> Any:
        if isinstance(index, str):
            known = tuple(getattr(state, "_fields", ()))
            raise ValueError(
                f"{state.__name__} has no field `{index}`, which `extra_fields` asks for. "
                f"{near_misses(index, known)} All of them: {', '.join(known)}."
            )
        return by_index(self, index)

    setattr(state, "__getitem__", getitem)  # noqa: B010 - mypy takes a method for a constant
    return state
