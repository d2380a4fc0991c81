"""How many draws go through a network together? Predictions one by one against 16 at once.

    python -m benchmarks predictions [--networks cnn_lstm resnet20_frn lenet mlp-30 mlp-5000]

Rows times draws a second of processor time, of predictive moments, on random inputs; the best of
three turns each, by turns. The ratio is what `components._draws_at_once` chooses by.
"""

import time
from typing import Any
from unittest.mock import patch

import jax
import numpy as np

from benchmarks.harness.tables import Table


def cases() -> dict[str, tuple[Any, np.ndarray, int]]:
    """Name -> the model, its inputs and the number of draws."""
    import bayesnn_ppl as bnn

    generator, models = np.random.default_rng(0), bnn.models

    def normal(*shape: int) -> np.ndarray:
        return generator.normal(size=shape).astype(np.float32)

    words = generator.integers(1, 19_999, (300, 100)).astype(np.int32)
    return {
        "cnn_lstm": (models.cnn_lstm(), words, 16),
        "resnet20_frn": (models.resnet20_frn(), normal(32, 32, 32, 3), 16),
        "lenet": (models.lenet(), normal(200, 28, 28, 1), 16),
        "mlp-30": (models.mlp_regression_small(), normal(30, 8), 2_000),
        "mlp-5000": (models.mlp_regression_small(), normal(5_000, 8), 100),
    }


def rate(model: Any, x: np.ndarray, draws: int, at_once: int, turns: int = 3) -> float:
    """Rows times draws a second of processor time, compilation apart."""
    from numpyro.infer import Predictive

    from bayesnn_ppl.posterior import components, mixture

    sites = Predictive(model, num_samples=1)(jax.random.key(0), x[:2])
    one = {n: np.repeat(np.asarray(a), draws, 0) for n, a in sites.items() if n != "y"}
    with patch.object(components, "_draws_at_once", lambda *_: at_once):
        parts = components.Components(model, one, x, memory=2**29, float64=False)
        parts.apply(mixture.component_moments, axis=1)
        seconds = []
        for _ in range(turns):
            began = time.process_time()
            parts.apply(mixture.component_moments, axis=1)
            seconds.append(time.process_time() - began)
    return draws * len(x) / min(seconds)


def main(*, networks: tuple[str, ...] = ()) -> None:
    """Print one line for each network.

    Args:
        networks: names; all without.
    """
    table = Table(" <14", "one by one >14,.0f", "16 at once >14,.0f", "ratio >8.2f")
    for name, (model, x, draws) in cases().items():
        if not networks or name in networks:
            single, together = (rate(model, x, draws, at_once) for at_once in (1, 16))
            table.row(name, single, together, single / together)
