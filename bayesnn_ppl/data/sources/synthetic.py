"""Small synthetic data sets whose truth is known."""

import numpy as np

from bayesnn_ppl.data.common.dataset import Dataset, assemble
from bayesnn_ppl.data.common.splits import check_split_number
from bayesnn_ppl.data.common.standardisation import Units

NOISE = 0.1

SETS = {
    "gap": "One input with a gap, y = sin(2x) + x/3 + noise of standard deviation 0.1; 100 "
    "training rows with 1 <= |x| <= 3, 100 test rows over all of [-3, 3].",
    "mlp_prior": "Drawn from a Bayesian neural network: 4 inputs, 50 tanh units, noise of standard "
    "deviation 0.1; 300 training and 100 test rows.",
    "two_moons": "Two interleaving half circles with noise of standard deviation 0.2; 200 training "
    "and 200 test rows.",
}

_TRAIN = {"gap": 100, "mlp_prior": 300, "two_moons": 200}


def load_synthetic(name: str, *, split: int, standardise: Units) -> Dataset:
    """One of `SETS`; `split`, any non-negative integer, is the seed of all of it."""
    check_split_number(split, None)
    x, y = {"gap": _gap, "mlp_prior": _mlp_prior, "two_moons": _two_moons}[name](split)
    classes = name == "two_moons"
    return assemble(
        x,
        y,
        *np.split(np.arange(len(x)), [_TRAIN[name]]),
        standardise=standardise,
        name=name,
        feature_names=[f"x{index}" for index in range(x.shape[1])],
        target_name="moon" if classes else "y",
        class_names=("upper", "lower") if classes else None,
        description=f"{SETS[name]} Synthetic, seed {split}.",
    )


def _gap(seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    side = generator.choice((-1.0, 1.0), size=100)
    x = np.concatenate([side * generator.uniform(1, 3, 100), generator.uniform(-3, 3, 100)])
    return x[:, None], np.sin(2 * x) + x / 3 + NOISE * generator.standard_normal(len(x))


def _mlp_prior(seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((400, 4))
    return x, mlp_function(x, generator) + NOISE * generator.standard_normal(len(x))


def mlp_function(x: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """A draw of f(x) = tanh(xW/sqrt(d) + b) v / sqrt(h), shape (n,), of x (n, d).

    All of W, b, v are standard normal, and h = 50.
    """
    hidden = 50
    kernel = generator.standard_normal((x.shape[1], hidden))
    bias = generator.standard_normal(hidden)
    units = np.tanh(x @ kernel / np.sqrt(x.shape[1]) + bias)
    return units @ generator.standard_normal(hidden) / np.sqrt(hidden)


def _two_moons(seed: int) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import make_moons

    x, y = make_moons(n_samples=400, noise=0.2, random_state=seed)
    return x, y.astype(np.int64)
