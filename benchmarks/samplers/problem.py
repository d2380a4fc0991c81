"""A posterior that samplers are compared on, and the time that they take."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


class Compilations:
    """Seconds that XLA and tracing took since the last reading."""

    def __init__(self) -> None:
        self.seconds = 0.0
        jax.monitoring.register_event_duration_secs_listener(self._note)

    def _note(self, event: str, seconds: float, **_: Any) -> None:
        if event.startswith("/jax/core/compile"):
            self.seconds += seconds

    def read(self) -> float:
        """The seconds so far; they are counted from 0 again."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


class Clock:
    """Seconds that pass, compilation left out."""

    def __init__(self, compilations: Compilations) -> None:
        self._compilations, self.compile = compilations, 0.0
        compilations.read()
        self._began = time.perf_counter()

    def seconds(self) -> float:
        """Since the clock was made."""
        self.compile += self._compilations.read()
        return time.perf_counter() - self._began - self.compile


class Problem:
    """A posterior, and the functions at test inputs that samplers are judged by.

    Args:
        name: a data set of `BAYESNN_DATA`, or one that scikit-learn has.
        network: "small" (`mlp_regression_small`, N(0, 1/30)), "50" (one hidden layer and a
            learned noise, N(0, 1)), "50-heads" (the same to mean and scale, as bde has it),
            "16-16" (mean and scale, N(0, 1)), all relu; "horseshoe" (linear regression) or
            "hierarchical" (10 tanh units, a scale for each layer), neither of them centred.
        split: which standard split.
    """

    def __init__(self, name: str, network: str = "small", *, split: int = 0) -> None:
        import bayesnn_ppl as bnn

        self.name, self.network, self.data = name, network, bnn.data.load(name, split=split)
        models, priors, likelihoods = bnn.models, bnn.priors, bnn.likelihoods
        learned, heads = likelihoods.gaussian(), likelihoods.heteroscedastic()
        relu: dict[str, Any] = {"prior": priors.normal(1.0), "activation": "relu"}
        self.model = {
            "small": lambda: models.mlp_regression_small(prior=priors.normal(variance=1 / 30)),
            "50": lambda: models.mlp(hidden=(50,), likelihood=learned, **relu),
            "50-heads": lambda: models.mlp(hidden=(50,), likelihood=heads, **relu),
            "16-16": lambda: models.mlp(hidden=(16, 16), likelihood=heads, **relu),
            "horseshoe": lambda: models.linear(prior=priors.horseshoe(), likelihood=learned),
            "hierarchical": lambda: models.mlp(
                hidden=(10,), prior=priors.hierarchical(), likelihood=learned
            ),
        }[network]()
        self.hidden = [16, 16] if network == "16-16" else [50]

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Training inputs and standardised targets."""
        return np.asarray(self.data.train.x), np.asarray(self.data.train.y)

    def potential(self) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
        """U of unconstrained values, and a draw of the prior for each key."""
        from numpyro.infer import init_to_sample
        from numpyro.infer.util import initialize_model

        x, y = (jnp.asarray(a) for a in self.arrays)

        def start(key: Any) -> Any:
            return initialize_model(
                key, self.model, init_strategy=init_to_sample, model_args=(x, y)
            ).param_info.z

        info = initialize_model(jax.random.key(0), self.model, model_args=(x, y))
        return info.potential_fn, start

    def constrained(self, draws: dict[str, Any]) -> dict[str, Any]:
        """Latent sites of unconstrained draws (chain, draw, ...)."""
        from numpyro.infer.util import constrain_fn

        x, y = self.arrays
        return jax.vmap(jax.vmap(lambda z: constrain_fn(self.model, (x, y), {}, z)))(draws)

    def functions(self, draws: dict[str, Any]) -> np.ndarray:
        """Mean and sd at test inputs of draws (chain, draw, ...), as (chain, draw, 2 outputs)."""
        from bayesnn_ppl.posterior.components import Components
        from bayesnn_ppl.posterior.mixture import component_moments

        chains, count = next(iter(draws.values())).shape[:2]
        if count == 0:  # the warm-up took the time
            return np.empty((chains, 0, 2 * len(self.data.test)))
        flat = {n: np.asarray(a).reshape(chains * count, *a.shape[2:]) for n, a in draws.items()}
        parts = Components(self.model, flat, self.data.test.x, memory=2**29, float64=False)
        mean, variance = parts.apply(component_moments, axis=1)
        both = np.concatenate([mean, np.broadcast_to(np.sqrt(variance), mean.shape)], axis=1)
        return both.reshape(chains, count, -1)

    def scores(self, functions: np.ndarray) -> dict[str, float]:
        """RMSE and NLL (of the mixture over draws), in the data's own units, of chains that live.

        Without a draw they are not numbers.

        Args:
            functions: mean and sd, standardised, (chain, draw, 2 outputs).
        """
        from scipy.special import logsumexp
        from scipy.stats import norm

        standard = self.data.test.y.standardisation
        sound = functions[np.isfinite(functions).all((1, 2))]
        if sound.size == 0:
            return {"rmse": np.nan, "nll": np.nan}
        mean, sd = np.split(sound.reshape(-1, sound.shape[2]).astype(float), 2, axis=1)
        y = np.asarray(self.data.test.y)
        log_p = logsumexp(norm.logpdf(y, mean, sd), axis=0) - np.log(len(mean))
        return {
            "rmse": float(np.sqrt(np.mean((mean.mean(0) - y) ** 2)) * standard.y_scale),
            "nll": float(-log_p.mean() + np.log(standard.y_scale)),
        }
