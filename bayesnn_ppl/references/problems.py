"""The posteriors of the reference collection: data, model and the rows that are compared."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from bayesnn_ppl.core.arguments import readable


@readable
@dataclass(frozen=True)
class Problem:
    """A posterior that has a reference.

    Attributes:
        data_name: what `data.load` takes; always split 0, standardised.
        family: "uci", "classification", "hierarchical" or "cold".
        description: the network, its prior and its temperature, in one sentence.
        make: the model, from the public names of the library.
        train_rows: how many of the first training rows there are; None for all.
    """

    data_name: str
    family: str
    description: str
    make: Callable[[], Any]
    train_rows: int | None = None

    def model(self) -> Any:
        """The NumPyro model."""
        return self.make()

    def data(self) -> Any:
        """The `Dataset`, split 0.

        Raises:
            FileNotFoundError: the data are read from a file that is not there.
        """
        from bayesnn_ppl import data

        whole = data.load(self.data_name, split=0)
        if self.train_rows is None:
            return whole
        return replace(whole, train=whole.train[: self.train_rows], loaded_by=None)


def _uci() -> Any:
    import bayesnn_ppl as bnn

    return bnn.models.mlp_regression_small(prior=bnn.priors.normal(variance=1 / 30))


def _classification() -> Any:
    import bayesnn_ppl as bnn

    return bnn.models.mlp(hidden=(8,), likelihood=bnn.likelihoods.categorical(2))


def _hierarchical() -> Any:
    import bayesnn_ppl as bnn

    relevance = bnn.priors.hierarchical(over="input", fan_in=True)
    return bnn.models.mlp(
        hidden=(8,), prior={"Dense_0.kernel": relevance, "*": bnn.priors.fan_in_normal()}
    )


def _cold() -> Any:
    import bayesnn_ppl as bnn

    return bnn.cold(bnn.models.mlp(hidden=(8,), likelihood=bnn.likelihoods.categorical(3)), 0.3)


_UCI = (
    "One relu layer of 50 to mean and noise sd (`mlp_regression_small`), N(0, 1/30) on every "
    "parameter."
)

PROBLEMS = {
    **{name: Problem(name, "uci", _UCI, _uci) for name in ("bostonHousing", "concrete", "yacht")},
    "energy-100": Problem(
        "energy",
        "uci",
        f"{_UCI[:-1]}, given the first 100 training rows: with all 691 no sampler here converges.",
        _uci,
        train_rows=100,
    ),
    "breast_cancer": Problem(
        "breast_cancer",
        "classification",
        "One tanh layer of 8 to two labels, fan-in normal prior.",
        _classification,
    ),
    "diabetes-ard": Problem(
        "diabetes",
        "hierarchical",
        "One tanh layer of 8 and a learned noise, a half-normal scale for the weights of each "
        "input (automatic relevance determination), other parameters fan-in normal.",
        _hierarchical,
    ),
    "wine-cold": Problem(
        "wine",
        "cold",
        "One tanh layer of 8 to three labels, fan-in normal prior, the whole posterior at the "
        "temperature 0.3.",
        _cold,
    ),
}
