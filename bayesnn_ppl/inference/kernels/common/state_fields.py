"""The fields of a kernel's state and its statistics, as `extra_fields` of NumPyro asks for them."""

from collections.abc import Mapping
from typing import Any

from bayesnn_ppl.core.arguments import near_misses

__all__ = ["named_fields"]


def named_fields[S: tuple[Any, ...]](state: type[S]) -> type[S]:
    """A NamedTuple whose `statistics`, name -> array, are its attributes too.

    The next draw needs the other fields; statistics are for readers. NumPyro takes `state[name]`
    where `state.name` is missing, of which a tuple says only that its indices are integers: here
    the error names what there is.
    """
    by_index = state.__getitem__

    def statistics(self: Any) -> Mapping[str, Any]:
        found = self[-1] if state._fields[-1] == "statistics" else {}  # type: ignore[attr-defined]
        return found if isinstance(found, Mapping) else {}

    def getattr_(self: S, name: str) -> Any:
        if name in (found := statistics(self)):
            return found[name]
        raise AttributeError(f"{state.__name__} has no field `{name}`.")

    def getitem(self: S, index: Any) -> Any:
        if isinstance(index, str):
            fields: tuple[str, ...] = getattr(state, "_fields", ())
            known = (*(name for name in fields if name != "statistics"), *statistics(self))
            raise ValueError(
                f"{state.__name__} has no field `{index}`, which `extra_fields` asks for. "
                f"{near_misses(index, known)} All of them: {', '.join(known)}."
            )
        return by_index(self, index)

    setattr(state, "__getitem__", getitem)  # noqa: B010 - mypy takes a method for a constant
    setattr(state, "__getattr__", getattr_)  # noqa: B010
    return state
