"""`sample`: run any MCMC kernel on any model, all chains at once, block by block."""

import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from numpyro.infer import NUTS
from numpyro.infer.mcmc import MCMCKernel

from bayesnn_ppl.arguments import near_misses, whole_number
from bayesnn_ppl.inference.contract import ModelSummary, check_array, inspect_model
from bayesnn_ppl.inference.program import Program, Settings, compile_program
from bayesnn_ppl.inference.progress import ProgressBar
from bayesnn_ppl.inference.provenance import describe_run
from bayesnn_ppl.inference.starts import explain_faults, resolve_start
from bayesnn_ppl.mesh import check_mesh, default_mesh, device_mesh, more_cpu_devices
from bayesnn_ppl.model import ColdModel
from bayesnn_ppl.posterior import Posterior

__all__ = ["Progress", "sample"]

_CHAIN_METHODS = ("parallel", "vectorized", "sequential")
_BLOCK_SECONDS = 0.5  # how long a Ctrl-C or a bar's next move may take, about


@dataclass(frozen=True)
class Progress:
    """What a callback sees after each block.

    Attributes:
        phase: "warmup" or "sample".
        done, total: draws of this phase made so far, and asked for.
        seconds: since sampling began, compilation left out.
        draws: variable name -> array (chain, block, ...) of this block's draws, constrained.
        statistics: name -> array (chain, block).
    """

    phase: str
    done: int
    total: int
    seconds: float
    draws: Mapping[str, np.ndarray]
    statistics: Mapping[str, np.ndarray]


def sample(
    kernel: MCMCKernel,
    x: Any,
    y: Any,
    *,
    warmup: int,
    draws: int,
    chains: int = 4,
    seed: int = 0,
    chain_method: str = "parallel",
    mesh: Mesh | None = None,
    init: Any = None,
    thinning: int = 1,
    float64: bool = False,
    progress: bool = True,
    callback: Callable[[Progress], Any] | None = None,
) -> Posterior:
    """Draw from the posterior of `kernel.model` given `x` and `y`.

    One function, "advance all chains by a block of draws", is compiled and called in a loop;
    an equal run later in the same process compiles nothing. Ctrl-C ends the run and returns
    the draws made so far.

    Args:
        kernel: any `numpyro.infer.mcmc.MCMCKernel` built from a model: `NUTS(model)`,
            `HMC(model)`, an ensemble kernel such as `AIES(model)`, or one of ours. It is not
            modified.
        x: inputs, shape (N, ...), numbers without NaN.
        y: targets, shape (N, ...), likewise. Targets from `data.load` carry their units, and
            predictions and metrics come out in them.
        warmup: draws per chain that adapt the kernel and are thrown away.
        draws: draws per chain that are kept.
        chains: number of chains.
        seed: of all randomness; the same seed on the same machine gives the same bits.
        chain_method: "parallel" spreads chains over the devices of the mesh; "vectorized" runs
            them in lockstep, and "sequential" one after another, on one device.
        mesh: for "parallel", from `device_mesh(chain, data)`; by default as many local devices
            as divide the chains evenly.
        init: where chains start. None: a draw from the prior. Or a strategy of
            `numpyro.infer`, or a mapping from site names to constrained values.
        thinning: transitions per kept draw. `warmup` and `draws` count draws; a warm-up draw is
            one transition.
        float64: run in double precision.
        progress: show a bar for all chains together (lines where there is no terminal).
        callback: called with a `Progress` after each block; returning True ends the run early.
            An error in it is reported once and does not stop the run.

    Returns:
        A `Posterior`.

    Raises:
        TypeError, ValueError: an argument, the data or the model is not what it must be; said
            before anything is compiled.
        RuntimeError: no chain could start where density and gradient are finite.
        KeyboardInterrupt: Ctrl-C during warm-up, when there is nothing yet to return.

    Example:
        >>> import bayesnn_ppl as bnn
        >>> from numpyro.infer import NUTS
        >>> data = bnn.data.load("diabetes")
        >>> posterior = bnn.sample(
        ...     NUTS(bnn.models.linear()), *data.train, warmup=200, draws=100, chains=2, seed=0,
        ...     progress=False)
        >>> posterior.draws["noise_scale"].shape
        (2, 100)
    """
    began = time.perf_counter()
    _check_kernel(kernel)
    warmup = whole_number(warmup, "`warmup`", at_least=0)
    draws = whole_number(draws, "`draws`", at_least=1)
    chains = whole_number(chains, "`chains`", at_least=1)
    thinning = whole_number(thinning, "`thinning`", at_least=1)
    seed = whole_number(seed, "`seed`", at_least=0)
    units = getattr(y, "standardisation", None)
    inputs, targets = check_array(x, "x"), check_array(y, "y")
    model = kernel.model

    with jax.enable_x64(True) if float64 else nullcontext():
        inputs, targets = _as_precision(inputs, float64), _as_precision(targets, float64)
        summary = inspect_model(model, inputs, targets)
        _warn_of_cold_latents(model, summary)
        strategy, values = resolve_start(init, summary, chains)
        mesh, arrangement = _place_chains(chain_method, mesh, chains, inputs.shape[0])
        settings = Settings(kernel, strategy, warmup, chains, mesh, arrangement, float64)
        with ProgressBar(shown=progress, chains=chains) as bar:
            if chains > 1 and chain_method == "parallel" and len(jax.devices()) == 1:
                if jax.devices()[0].platform == "cpu":
                    bar.say("All chains share one CPU device. " + more_cpu_devices(chains))
            keys = _chain_keys(seed, chains)
            program = compile_program(settings, keys, values, inputs, targets)
            run = _Run(settings, program, inputs, targets, bar, callback)
            run.start(keys, values, given=bool(values))
            run.warm_up(warmup)
            run.draw(draws, thinning)
    seconds = {"compile": program.compile_seconds, **run.seconds}
    seconds["total"] = time.perf_counter() - began
    attributes = describe_run(
        settings,
        summary,
        inputs,
        targets,
        run={
            "warmup": warmup,
            "draws": run.done,
            "draws_requested": draws,
            "chains": chains,
            "thinning": thinning,
            "seed": seed,
            "chain_method": chain_method,
            "interrupted": run.interrupted,
        },
        seconds=seconds,
    )
    return Posterior.from_arrays(
        run.kept,
        _named_statistics(run.statistics, kernel),
        attributes,
        model=model,
        standardisation=units,
    )


def _named_statistics(
    statistics: Mapping[str, np.ndarray], kernel: MCMCKernel
) -> dict[str, np.ndarray]:
    """Statistics under ArviZ's names: the log density as `lp`, a NUTS tree's depth."""
    named = dict(statistics)
    if "potential_energy" in named:
        named["lp"] = -named.pop("potential_energy")
    if isinstance(kernel, NUTS) and "n_steps" in named:
        # A full tree of depth d has 2^d - 1 leapfrogs.
        named["tree_depth"] = np.floor(np.log2(np.maximum(named["n_steps"], 1))).astype(int) + 1
    return named


def _check_kernel(kernel: Any) -> None:
    if not isinstance(kernel, MCMCKernel):
        hint = " Build it from your model: `NUTS(model)`." if callable(kernel) else ""
        raise TypeError(
            "The kernel must be a numpyro.infer.mcmc.MCMCKernel such as `NUTS(model)`, "
            f"not {kernel!r}.{hint}"
        )
    if getattr(kernel, "model", None) is None:
        raise ValueError(
            f"The kernel {type(kernel).__name__} has no model. Build it from a model, "
            f"`{type(kernel).__name__}(model)`, not from a potential function: predictions need "
            "the program."
        )


def _as_precision(array: np.ndarray, float64: bool) -> np.ndarray:
    if array.dtype.kind == "f":
        return array.astype(np.float64 if float64 else np.float32)
    return array.astype(np.int32) if array.dtype.kind in "iu" else array


def _warn_of_cold_latents(model: Any, summary: ModelSummary) -> None:
    others = sorted(set(summary.latents) - summary.parameters)
    if isinstance(model, ColdModel) and model.temperature != 1.0 and others:
        warnings.warn(
            f"The posterior at temperature {model.temperature} depends on how the program is "
            f"parametrised, because it has latent sites besides network parameters: {others}. "
            "Fix them, or temper the likelihood alone with `tempered(T)`.",
            stacklevel=3,
        )


def _place_chains(chain_method: str, mesh: Mesh | None, chains: int, rows: int) -> tuple[Mesh, str]:
    if chain_method not in _CHAIN_METHODS:
        raise ValueError(
            f"The chain_method `{chain_method}` is unknown. "
            + near_misses(str(chain_method), _CHAIN_METHODS)
        )
    if chain_method != "parallel":
        if mesh is not None:
            raise ValueError(
                f'A mesh is for chain_method="parallel"; "{chain_method}" uses one device.'
            )
        return device_mesh(1), "vmap" if chain_method == "vectorized" else "map"
    mesh = default_mesh(chains) if mesh is None else mesh
    check_mesh(mesh, chains=chains, rows=rows)
    # Several chains of one CPU device run one after another: batching them is slower there (small
    # matrices), and in lockstep every chain waits for the longest tree. See docs/architecture.md.
    on_cpu = mesh.devices.flat[0].platform == "cpu"
    return mesh, "map" if on_cpu else "vmap"


@jax.jit
def _fold_in(key: jax.Array, index: jax.Array) -> jax.Array:
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, index)


def _chain_keys(seed: int, chains: int) -> jax.Array:
    """One key a chain; chain i has the same key whatever the number of chains."""
    return _fold_in(jax.random.key(seed), np.arange(chains, dtype=np.uint32))


class _Run:
    """One run: its state on the devices, and what has been drawn so far on the host."""

    def __init__(
        self,
        settings: Settings,
        program: Program,
        x: np.ndarray,
        y: np.ndarray,
        bar: ProgressBar,
        callback: Callable[[Progress], Any] | None,
    ) -> None:
        self._settings, self._program, self._bar = settings, program, bar
        self._host_data = (x, y)
        self._data = (program.place(x), program.place(y))
        self._callback = callback
        self._seconds_per_transition: float | None = None
        self._state: Any = None
        self.seconds: dict[str, float] = {}
        self.kept: dict[str, np.ndarray] = {}
        self.statistics: dict[str, np.ndarray] = {}
        self.done = 0
        self.interrupted = False

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = time.perf_counter() - began

    def start(self, keys: jax.Array, values: Mapping[str, Any], *, given: bool) -> None:
        with self._timed("start"):
            state, z, faults = self._program.start(keys, values, *self._data)
            model = self._settings.kernel.model
            problem = explain_faults(model, *self._host_data, z, faults, given)
            if problem is not None:
                raise RuntimeError(problem)
            self._state = state

    def warm_up(self, warmup: int) -> None:
        with self._timed("warmup"):
            for _ in self._blocks("warmup", warmup, thinning=1):
                pass

    def draw(self, draws: int, thinning: int) -> None:
        with self._timed("sample"):
            try:
                for kept, statistics in self._blocks("sample", draws, thinning):
                    self._keep(kept, statistics, draws)
            except KeyboardInterrupt:
                if not self.done:
                    raise
                self.interrupted = True
                self._bar.say(f"Interrupted: {self.done} of {draws} draws per chain are kept.")
        if self.done < draws:
            self.kept = {name: a[:, : self.done].copy() for name, a in self.kept.items()}
            self.statistics = {n: a[:, : self.done].copy() for n, a in self.statistics.items()}

    def _keep(
        self, kept: dict[str, np.ndarray], statistics: dict[str, np.ndarray], draws: int
    ) -> None:
        made = 0
        for target, block in ((self.kept, kept), (self.statistics, statistics)):
            for name, array in block.items():
                if name not in target:
                    shape = (array.shape[0], draws, *array.shape[2:])
                    target[name] = np.empty(shape, array.dtype)
                made = array.shape[1]
                target[name][:, self.done : self.done + made] = array
        # Last, so that an interrupt between two arrays never leaves a half-written draw counted.
        self.done += made

    def _blocks(self, phase: str, total: int, thinning: int) -> Iterator[Any]:
        """Advance by `total` draws, block by block; yields what each block drew."""
        self._bar.phase(phase, total)
        done = divergences = 0
        began = time.perf_counter()
        while done < total:
            count = min(total - done, self._next_block(thinning))
            block_began = time.perf_counter()
            state, kept, statistics = self._program.advance(
                self._state, *self._data, np.int32(count), np.int32(thinning)
            )
            kept = {name: np.asarray(a)[:, :count] for name, a in kept.items()}
            statistics = {name: np.asarray(a)[:, :count] for name, a in statistics.items()}
            now = time.perf_counter()
            self._seconds_per_transition = (now - block_began) / (count * thinning)
            self._state = state
            done += count
            divergences += int(np.sum(statistics.get("diverging", 0)))
            yield kept, statistics
            self._bar.advance(done, statistics, divergences)
            if self._stop_early(Progress(phase, done, total, now - began, kept, statistics)):
                return

    def _next_block(self, thinning: int) -> int:
        """As many draws as take about half a second, so that the bar moves and Ctrl-C is heard."""
        if self._seconds_per_transition is None:
            return 1
        count = _BLOCK_SECONDS / max(self._seconds_per_transition * thinning, 1e-9)
        return int(np.clip(count, 1, self._program.block))

    def _stop_early(self, progress: Progress) -> bool:
        if self._callback is None:
            return False
        try:
            return self._callback(progress) is True
        except Exception:  # the user's metric must not cost the draws
            self._bar.say("The callback failed and is not called again; the run goes on.")
            self._bar.say(traceback.format_exc())
            self._callback = None
            return False
