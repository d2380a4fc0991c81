"""`calibrate`: are a method's draws those of the posterior of data that the model makes?"""

import importlib.metadata
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import bayesnn_ppl
from bayesnn_ppl.calibration.around_data import own_posterior, take_around
from bayesnn_ppl.calibration.methods import Method, Sampling, built, chosen_sampling
from bayesnn_ppl.calibration.quantities import Quantities
from bayesnn_ppl.calibration.record import CalibrationFolder, Replications
from bayesnn_ppl.calibration.replicator import Replicator
from bayesnn_ppl.calibration.result import Calibration, judged
from bayesnn_ppl.calibration.truths import AroundData, FromPrior, Truths
from bayesnn_ppl.core.arguments import integer, strict_switches
from bayesnn_ppl.core.arrays import check_array, check_targets, data_hash
from bayesnn_ppl.core.identity import StaticValue, describe
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.diagnostics.prior.layer_activity import Layers
from bayesnn_ppl.diagnostics.prior.traced_model import inspect_prior
from bayesnn_ppl.distributed.clusters import connected, say_dashboard
from bayesnn_ppl.inference.runtime.progress import ProgressBar
from bayesnn_ppl.posterior.posterior import Posterior

_FEWEST = 20  # replications
_PROBES = 3


@strict_switches
def calibrate(
    method: Any,
    model: Any,
    x: Any,
    y: Any = None,
    *,
    replications: int = 200,
    warmup: int | None = None,
    draws: int | None = None,
    chains: int | None = None,
    thinning: int | None = None,
    init: Any = None,
    around: Posterior | None = None,
    probe: Any = None,
    quantities: Mapping[str, Callable[[Mapping[str, Any]], Any]] | None = None,
    false_alarm: float = 0.01,
    seed: int = 0,
    float64: bool = False,
    progress: bool = True,
    out: str | Path | None = None,
    cluster: Any = None,
) -> Calibration:
    r"""Simulation-based calibration of a kernel or an approximation.

    In each replication θ* ~ p(θ) and y* ~ p(y|x, θ*) are drawn from `model`, and the method draws
    from p(θ|x, y*). If it is right, θ* and its draws have one distribution given y*, and the rank
    of any quantity h(θ*, y*) among h(θ_1, y*), ..., h(θ_L, y*) is uniform on 0, ..., L. Ranks of
    function values, scalars and log densities over all replications are tested for that.

    With data y it is done around them (posterior SBC): θ' ~ p(θ|x, y), y' ~ p(y|x, θ'), and the
    method draws from p(θ|x, y, x, y').

    The method is compiled once. Draws of a kernel are thinned to the largest L of 127, 63, 31, 15,
    7 that nine replications in ten have twice the effective sample size for; a quantity that mixes
    too slowly for that is not judged.

    Args:
        method: a kernel such as `NUTS(model)`, an approximation such as
            `approximations.Laplace(model)`, or a function that builds one from `model`, such as
            `NUTS`. A method whose own model is another one is tested against `model`: that is how
            a wrong prior, likelihood or temperature is found.
        model: makes parameters and data; None for the model of the method.
        x: inputs (N, ...). 20 to 200 rows are enough to find an error.
        y: data at hand (N, ...), for posterior SBC; None to start from the prior.
        replications: R, 20 or more.
        warmup, draws, chains, thinning, init: of a kernel, as for `sample`; by default 150, 150, 2
            (4 of an ensemble kernel), 1 and draws from the prior. An approximation has none.
        around: with y, a `Posterior` given (x, y) whose draws are θ'; its latent sites are those of
            `model`. None: the method's own, from a run of 4 R draws.
        probe: inputs (M, ...) at which functions are ranked; by default three rows of x.
        quantities: more of them, name -> function of the latent sites' values that returns a
            number, such as `{"bias": lambda values: values["net/Dense_1.bias"][0]}`.
        false_alarm: probability at which a right method is called wrong, over all quantities.
        seed: of all randomness. Replication r is the same whatever the number of replications.
        float64: compute in double precision.
        progress: show a bar.
        out: a folder that keeps every replication that is done. The same call resumes a
            calibration that was ended there, with the ranks it would have had, and makes more
            replications where more are asked for.
        cluster: workers of Dask that share the replications, as in `sample`; replication r has the
            ranks that one process gives it, up to rounding in float32. A replication whose worker
            is lost is made again by another.

    Returns:
        A `Calibration`: print it, or `plot()` it. Ctrl-C returns what is done, if 20 are.

    Raises:
        FileExistsError: `out` holds something else.
        TypeError, ValueError: an argument is not what it must be, or `out` holds a calibration
            with other settings; said before anything is compiled.
        RuntimeError: the first replication fails.
        KeyboardInterrupt: Ctrl-C came before 20 replications.

    References:
        Talts et al. (2018), arXiv:1804.06788, algorithm 2 (thinning by effective sample size);
        Modrák et al. (2023), arXiv:2211.02383 (data-dependent quantities); Säilynoja, Bürkner,
        Vehtari (2022), arXiv:2103.10522 (bands); Säilynoja, Schmitt, Bürkner, Vehtari (2025),
        Posterior SBC, arXiv:2502.03279.

    Example:
        >>> import numpy as np
        >>> import bayesnn_ppl as bnn
        >>> model = bnn.models.linear(likelihood=bnn.likelihoods.gaussian(scale=0.5))
        >>> x = np.linspace(-1, 1, 12, dtype=np.float32)[:, None]
        >>> found = bnn.calibrate(
        ...     bnn.approximations.Laplace(model, draws=63), model, x, replications=20,
        ...     progress=False)
        >>> found.status
        'calibrated'
    """
    method = built(method, model)
    own = getattr(method, "model", None)
    if own is None:
        kind = type(method).__name__
        raise ValueError(f"The method {kind} has no model. Build it from one, `{kind}(model)`.")
    truth_model = own if model is None else model
    replications = integer(replications, "`replications`", at_least=_FEWEST)
    seed = integer(seed, "`seed`", at_least=0, below=2**32)
    false_alarm = _share(false_alarm)
    sampling = chosen_sampling(
        method, warmup=warmup, draws=draws, chains=chains, thinning=thinning, init=init
    )
    inputs = check_array(x, "x", float64=float64)
    points = _probe(probe, inputs, float64=float64)
    _check_around(around, y)
    data = None if y is None else check_targets(y, "y", float64=float64)
    prior = FromPrior(truth_model, inputs, seed, float64)
    all_inputs = inputs if data is None else np.concatenate([inputs, inputs])
    # Refuses a truth that cannot make data, before the method is given any.
    with arithmetic(float64=float64):
        inspect_prior(StaticValue(truth_model), Layers(), inputs)
    example = prior.draw(0).y if data is None else np.concatenate([data, data])
    ready = Method(method, all_inputs, example, sampling, float64=float64)
    if ready.summary.local:
        raise ValueError(
            f"The model has latent sites of single rows, {list(ready.summary.local)}: "
            "their function values at probe inputs are not defined. Integrate them out."
        )
    measures = Quantities(
        truth_model, own, ready.summary, all_inputs, points, quantities or {}, float64=float64
    )
    label = None
    if around is not None:
        run = around.provenance
        label = f"{run['kernel']} seed {run['seed']} data {run['data_sha256'][:12]}"
    config = _config(
        ready,
        truth_model,
        own,
        sampling,
        data_sha256=data_hash(inputs, inputs[:0] if data is None else data),
        probe_sha256=data_hash(points, points[:0]),
        replications=replications,
        quantities=sorted(quantities or {}),
        false_alarm=false_alarm,
        seed=seed,
        around_data=data is not None,
        around=label,
    )
    kept: Replications = Replications() if out is None else CalibrationFolder(Path(out), config)
    interrupted = False
    with (
        nullcontext() if cluster is None else connected(cluster, replications) as client,
        ProgressBar(shown=progress, chains=sampling.chains if sampling else 1) as bar,
    ):
        if client is not None:
            say_dashboard(client, bar.say)
        try:
            truths: Truths = prior
            if data is not None:
                if kept.around is None:
                    at_hand = around or own_posterior(
                        method, inputs, data, sampling, replications, seed, float64=float64
                    )
                    ess = take_around(kept, at_hand, points, replications, seed)
                    config["around_ess"] = ess
                assert kept.around is not None
                truths = AroundData(truth_model, inputs, data, kept.around, seed, float64)
            replicator = Replicator(ready, measures, truths, seed)
            replicator.run(kept, replications, bar, client)
        except KeyboardInterrupt:
            if len(kept.done) < _FEWEST:
                raise
            interrupted = True
    lines = [kept.done[r] for r in sorted(kept.done) if r < replications]
    if isinstance(kept, CalibrationFolder):
        config = kept.config
    return judged(config, lines, interrupted=interrupted)


def _probe(probe: Any, x: np.ndarray, *, float64: bool) -> np.ndarray:
    if probe is None:
        return x[np.unique(np.linspace(0, len(x) - 1, _PROBES).astype(int))]
    points = check_array(probe, "probe", float64=float64)
    if points.shape[1:] != x.shape[1:]:
        raise ValueError(
            f"`probe` has rows of shape {points.shape[1:]}, but `x` has rows of shape "
            f"{x.shape[1:]}. Prepare it as the training inputs."
        )
    return points


def _check_around(around: Any, y: Any) -> None:
    if around is None:
        return
    if not isinstance(around, Posterior):
        raise TypeError(f"`around` must be a `Posterior` of the data at hand, not {around!r}.")
    if y is None:
        raise ValueError("`around` is a posterior given x and y: give the data `y` as well.")


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise ValueError(f"`false_alarm` must be a probability between 0 and 1, not {value!r}.")
    return float(value)


def _config(
    ready: Method, truth: Any, own: Any, sampling: Sampling | None, **more: Any
) -> dict[str, Any]:
    """What a calibration is, as JSON-ready values."""
    run = ready.describe()
    init = None if sampling is None or sampling.init is None else describe(sampling.init)
    same = ("likelihood_temperature", "posterior_temperature", "precision", "rows")
    return {
        "method": run["kernel"],
        "settings": run["kernel_settings"],
        "method_model": describe(own),
        "model": describe(truth),
        "independent": ready.independent,
        **{name: run[name] for name in same},
        "sampling": sampling and asdict(sampling) | {"init": init},
        "versions": {
            "bayesnn_ppl": bayesnn_ppl.__version__,
            **{name: importlib.metadata.version(name) for name in ("jax", "numpyro", "numpy")},
        },
        **more,
    }
