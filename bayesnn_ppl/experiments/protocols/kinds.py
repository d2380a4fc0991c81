"""What a study does with a method, other than scoring it on held-out rows; and its settings."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from bayesnn_ppl.core.arguments import integer, near_misses
from bayesnn_ppl.data.corruptions import KINDS, SEVERITIES
from bayesnn_ppl.experiments.protocols.bandits import POLICIES, PROBLEMS
from bayesnn_ppl.experiments.toml_files import Entry, check_keys, expect
from bayesnn_ppl.metrics.active_learning import ACQUISITIONS

__all__ = ["PROTOCOLS", "ActiveLearning", "Bandit", "Protocol", "Shift", "as_table", "protocol_of"]

OUTLIERS = ("pair", "shuffled", "none")


class Protocol:
    """Settings of a protocol, checked when they are made."""

    def _among(self, name: str, known: tuple[str, ...]) -> None:
        value = getattr(self, name)
        if value not in known:
            raise ValueError(f"`{name}` is `{value}`. {near_misses(str(value), known)}")

    @classmethod
    def read(cls, values: Mapping[str, Any], where: str) -> Self:
        """From a table of a file; lists become tuples.

        Raises:
            ValueError: a setting that there is not, or a value that it cannot have.
        """
        assert dataclasses.is_dataclass(cls)
        fields = {field.name: field for field in dataclasses.fields(cls)}
        check_keys(Entry(values, where), fields)
        made = {}
        for name, value in values.items():
            kind = type(fields[name].default)
            value = expect(value, list if kind is tuple else kind, f"`{name}` in {where}")
            made[name] = tuple(value) if kind is tuple else value
        try:
            return cls(**made)
        except (TypeError, ValueError) as error:
            raise ValueError(f"In {where}: {error}") from error


@dataclass(frozen=True)
class Shift(Protocol):
    """Scores of one trained method on test images that are ever more corrupted.

    A row for each kind and severity, 0 for the clean images, and one for outliers, by the entropy
    of the predictions.

    Attributes:
        kinds: of `data.corrupt`.
        severities: 1 to 5.
        outliers: "pair", the images of `data.ood_pair`; "shuffled", the test images with their
            pixels in another order, the same for all; "none".
    """

    kinds: tuple[str, ...] = KINDS
    severities: tuple[int, ...] = SEVERITIES
    outliers: str = "pair"

    def __post_init__(self) -> None:
        self._among("outliers", OUTLIERS)
        for name, known in (("kinds", KINDS), ("severities", SEVERITIES)):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values) or not set(values) <= set(known):
                raise ValueError(
                    f"`{name}` must hold one or more of {', '.join(map(str, known))}, each once, "
                    f"not {list(values)}."
                )


@dataclass(frozen=True)
class ActiveLearning(Protocol):
    """Train, label what an acquisition asks for, and train again from scratch; see `acquire`.

    Attributes:
        acquisition: of `metrics.acquisition`.
        start: rows that are labelled at random before the first training, balanced over labels.
        batch: rows labelled after each training but the last.
        rounds: trainings.
        candidates: rows of the pool that are scored, at random, each round; 0 for all.
    """

    acquisition: str = "mutual_information"
    start: int = 20
    batch: int = 10
    rounds: int = 5
    candidates: int = 0

    def __post_init__(self) -> None:
        self._among("acquisition", ACQUISITIONS)
        for name in ("start", "batch", "rounds"):
            integer(getattr(self, name), f"`{name}`", at_least=1)
        integer(self.candidates, "`candidates`", at_least=0)
        if 0 < self.candidates < self.batch:
            raise ValueError(
                f"`candidates` is {self.candidates}, but {self.batch} of them are to be labelled."
            )


@dataclass(frozen=True)
class Bandit(Protocol):
    """Choose an action for each context, see its reward alone, and train again at times.

    Attributes:
        problem: "labels", the recipe's labelled data, reward 1 for the right label and else 0;
            "wheel", that of Riquelme et al.
        policy: "thompson", "greedy" or "uniform", see `bandits.play`.
        length: contexts in all.
        refits: after how many of them the method is trained; before the first, actions take turns.
        delta: radius of the wheel inside of which its first action is best.
    """

    problem: str = "labels"
    policy: str = "thompson"
    length: int = 200
    refits: tuple[int, ...] = (20, 50, 100)
    delta: float = 0.5

    def __post_init__(self) -> None:
        self._among("problem", PROBLEMS)
        self._among("policy", POLICIES)
        integer(self.length, "`length`", at_least=2)
        for refit in self.refits:
            integer(refit, "Each of `refits`", at_least=1, below=self.length)
        if not self.refits or sorted(set(self.refits)) != list(self.refits):
            raise ValueError(
                f"`refits` must be rising numbers of contexts, not {list(self.refits)}."
            )
        if not 0 < self.delta < 1:
            raise ValueError(f"`delta` is a radius inside (0, 1), not {self.delta}.")


PROTOCOLS: Mapping[str, type[Protocol]] = {
    "shift": Shift,
    "active-learning": ActiveLearning,
    "bandit": Bandit,
}


def protocol_of(values: Mapping[str, Any], where: str) -> Protocol | None:
    """The protocol of a table of a file; None for an empty one, where held-out rows are scored.

    Raises:
        ValueError: its `name` is missing or unknown, or as `Protocol.read`.
    """
    if not values:
        return None
    name = Entry(values, where).need("name", str)
    if name not in PROTOCOLS:
        raise ValueError(f"There is no protocol `{name}` ({where}). {near_misses(name, PROTOCOLS)}")
    return PROTOCOLS[name].read({k: v for k, v in values.items() if k != "name"}, where)


def as_table(protocol: Protocol | None) -> dict[str, Any]:
    """The name and all settings, JSON-ready; empty for None."""
    if protocol is None:
        return {}
    (name,) = (name for name, kind in PROTOCOLS.items() if isinstance(protocol, kind))
    assert dataclasses.is_dataclass(protocol) and not isinstance(protocol, type)
    settings = dataclasses.asdict(protocol)
    return {
        "name": name,
        **{k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()},
    }
