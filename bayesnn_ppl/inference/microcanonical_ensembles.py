"""MILE: microcanonical Langevin chains, each warm-started from a trained network."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jax.sharding import Mesh

from bayesnn_ppl.core.arguments import integer, strict_switches
from bayesnn_ppl.inference.approximations.trained_networks.ensemble import Ensemble
from bayesnn_ppl.inference.kernels.full_batch.microcanonical.mclmc import MCLMC
from bayesnn_ppl.inference.runtime.keep import Keep
from bayesnn_ppl.inference.sampling.run import Progress
from bayesnn_ppl.inference.sampling.sampler import sample
from bayesnn_ppl.modeling.temperature import Model
from bayesnn_ppl.posterior.posterior import Posterior

__all__ = ["mile"]

_KERNEL = {"energy_variance_end": 0.01}


@strict_switches
def mile(
    model: Model,
    x: Any,
    y: Any,
    *,
    chains: int = 12,
    warmup_steps: int = 50_000,
    draws: int = 1_000,
    steps_per_draw: int = 10,
    ensemble: Ensemble | None = None,
    kernel: Mapping[str, Any] | None = None,
    seed: int = 0,
    mesh: Mesh | None = None,
    float64: bool = False,
    progress: bool = True,
    callback: Callable[[Progress], Any] | None = None,
    out: str | Path | None = None,
    keep: Keep | None = None,
    until: Mapping[str, Any] | None = None,
) -> Posterior:
    """Train one network for each chain, and run microcanonical Langevin dynamics from there.

    The same as `sample(MCLMC(model, ...), x, y, init=Ensemble(), ...)`, with the published
    settings as defaults: twelve members trained by AdamW with early stopping (`Ensemble`), 50 000
    steps of warm-up in three phases (80, 10 and 10 %), and 10 000 steps of which every tenth is
    kept. Every step costs two gradients.

    Differing from the paper, the wanted energy variance per dimension falls from 0.5 to 0.01 and
    not to 0.1 (a smaller bias, and better predictions in 10 of 14 runs on UCI sets, by 0.06 nats in
    the median), the position is preconditioned by the variances that the warm-up finds, and the
    velocity refreshed four times on a way of length L in place of after every step (cheaper, and
    the same target; see `MCLMC`). The paper's own is `kernel=dict(energy_variance_end=0.1,
    preconditioning="identity", refreshments_per_length=None)`.

    There is no accept step, so moments have the bias that `MCLMC` describes; chains that start in
    different modes stay there, and R-hat says so: what is sampled is a mixture of local
    posteriors, weighted equally.

    Args:
        model: a NumPyro model of `(x, y)`.
        x, y: data, as for `sample`.
        chains: members of the ensemble, and chains.
        warmup_steps: steps that tune step size, preconditioner and decoherence length.
        draws: draws per chain that are kept.
        steps_per_draw: steps for each of them.
        ensemble: how the members are trained; by default as in MILE.
        kernel: further settings of `MCLMC`, and others than `energy_variance_end=0.01`.
        seed, mesh, float64, progress, callback, out, keep, until: as for `sample`.

    Raises:
        TypeError, ValueError, RuntimeError: as `sample`, `Ensemble` and `MCLMC`.

    References:
        Sommer, Robnik, Nozadze, Seljak and Rügamer (2025), Microcanonical Langevin Ensembles,
        ICLR, arXiv:2502.06335.
    """
    warmup_steps = integer(warmup_steps, "`warmup_steps`", at_least=0)
    return sample(
        MCLMC(model, steps_per_draw=steps_per_draw, **(_KERNEL | dict(kernel or {}))),
        x,
        y,
        warmup=-(-warmup_steps // steps_per_draw),
        draws=draws,
        chains=chains,
        seed=seed,
        mesh=mesh,
        init=Ensemble() if ensemble is None else ensemble,
        float64=float64,
        progress=progress,
        callback=callback,
        out=out,
        keep=keep,
        until=until,
    )
