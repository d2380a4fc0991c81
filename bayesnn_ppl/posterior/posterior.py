"""The result of every inference method: draws, statistics, provenance and what follows."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import xarray as xr

from bayesnn_ppl import storage
from bayesnn_ppl.core.arguments import integer, strict_switches
from bayesnn_ppl.core.identity import describe
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.posterior.draws_with_model import DrawsWithModel
from bayesnn_ppl.posterior.prediction import Prediction

if TYPE_CHECKING:
    from bayesnn_ppl.diagnostics import Diagnosis, FitDiagnosis, Thermometry

__all__ = ["Posterior", "Prediction", "load"]

_MEMORY = 2**29


class Posterior(DrawsWithModel):
    """Draws from a posterior, as an ArviZ DataTree with the model that made them.

    Attributes:
        tree: `xarray.DataTree` with the groups `posterior` and `sample_stats`; the provenance
            is in its attributes. Other groups that `Keep` asked for: `predictions`, function values
            at the probe inputs, which are in `predictions_constant_data`; `posterior_mean` and
            `posterior_variance` (chain, ...), in place of `posterior`. `with_groups` adds those
            that ArviZ's functions look for.
        model: the NumPyro model, or None where the posterior was loaded without it.
        data: the training data `(x, y)`, where `sample` or `fit` made the posterior in this process
            from arrays; not stored with it.
    """

    @strict_switches
    def with_groups(
        self,
        *groups: str,
        x: Any = None,
        y: Any = None,
        tempered: bool = False,
        seed: int = 0,
        memory: int = _MEMORY,
    ) -> Self:
        """This posterior with groups of its tree that ArviZ's functions look for.

        A group that is there already is not made again; draws are shared with this posterior.
        Values are in the data's units, densities included.

        | group | holds | for |
        |---|---|---|
        | `log_likelihood` | log p(y_i given θ), (chain, draw, row) | `az.loo`, `az.compare` |
        | `log_prior` | log p(θ) by site, (chain, draw) | `az.psense_summary` |
        | `posterior_predictive` | a y of each draw, (chain, draw, row, ...) | `az.plot_loo_pit` |
        | `observed_data` | y, (row, ...) | `az.plot_ppc_dist` |
        | `constant_data` | x, as the model was given it | |
        | `functions` | what each draw's network says at a few rows | `az.plot_rank` |

        Args:
            *groups: names among these.
            x, y: the training data as `sample` was given them. Without them, those that `sample`
                or `fit` was given in this process, or the probe inputs of the run where these are
                the training data. `functions` alone takes any x, and no y.
            tempered: densities to the power 1/T, as they are in the density of the draws, which
                is what `az.psense_summary` needs of them. `az.loo` needs those without.
            seed: of the predictive samples.
            memory: bytes that intermediate arrays may take, about.

        Raises:
            ValueError: an unknown group; no data are known, or they are not the run's; or the
                model or the weights are missing.

        Warns:
            UserWarning: `log_likelihood` of draws at another temperature than 1, or of an
                approximation: leave-one-out by ArviZ alone would be wrong. The group's attribute
                `note` says what is right.

        Example:
            >>> import bayesnn_ppl as bnn
            >>> data = bnn.data.load("diabetes")
            >>> model = bnn.models.linear()
            >>> kernel = bnn.kernels.HMC(model, num_leapfrogs=8)
            >>> run = bnn.sample(kernel, *data.train, warmup=9, draws=9, chains=1,
            ...                  progress=False)
            >>> dict(run.with_groups("log_likelihood").tree["log_likelihood"].sizes)
            {'chain': 1, 'draw': 9, 'row': 398}
        """
        from bayesnn_ppl.posterior.arviz_groups import make_groups

        made = make_groups(self, groups, x, y, tempered=tempered, seed=seed, memory=memory)
        more = type(self)(self.tree.copy(), self.model)
        more.data = self.data if x is None or y is None else (x, y)
        for name, dataset in made.items():
            more.tree[name] = xr.DataTree(dataset)
        return more

    def diagnose(
        self,
        x: Any = None,
        *,
        data: tuple[Any, Any] | None = None,
        gradients: int | None = None,
        memory: int = _MEMORY,
        **settings: Any,
    ) -> "Diagnosis | FitDiagnosis":
        """Has the sampler converged? Four judgements, see `diagnostics.diagnose`.

        What `fit` returned is judged by what its method found, see `diagnostics.diagnose_fit`.
        Draws of a kernel without an accept step are judged by their temperatures, which needs the
        data of the run: those that `sample` was given in this process, or `data`.

        Args:
            x: probe inputs (N, ...), best those the predictions are wanted for. None: those
                of the run; a run without one is judged by weights and sampler alone, and there
                is not a verdict.
            data: the training data `(x, y)` as `sample` was given them.
            gradients: at how many draws the gradient over all data is computed. None: 2000, or as
                many as take a few seconds; 0 for none.
            memory: bytes that intermediate arrays may take, about.
            **settings: thresholds, see `diagnostics.diagnose`; and `temperatures`, what
                `temperatures(x, y, probe=...)` returned, in place of those read here.

        Raises:
            ValueError: nothing was kept that could be judged, or `data` are not those of the run.
        """
        from bayesnn_ppl.posterior.diagnosing import diagnose_posterior

        return diagnose_posterior(self, x, data, gradients, memory, settings)

    def temperatures(self, x: Any = None, y: Any = None, **settings: Any) -> "Thermometry":
        """Is the sampler too hot, too cold or right, in which layers, and what is to change?

        Args:
            x, y: the data of the run, for the configurational temperature, which any sampler has;
                without them the kinetic one alone, which stochastic-gradient kernels record.
            **settings: `gradients`, `rows`, `probe`, `tolerance`, ...; see
                `diagnostics.read_temperatures`.

        Raises:
            ValueError: no temperature was recorded and no data are given, or others than the
                run's.
        """
        from bayesnn_ppl.diagnostics import read_temperatures

        return read_temperatures(self, x, y, **settings)

    def compress(self, k: int, x: Any, *, memory: int = _MEMORY) -> Self:
        """The k draws that together predict most nearly as all draws do.

        Draws are compared by their functions at `x`: predicted mean and noise sd, or log-odds, each
        in posterior standard deviations. The k draws are those whose energy distance to all draws
        is small (Mak and Joseph 2018, arXiv:1609.01811); see
        `posterior.compression.support_points`. `metrics.compare({"all": posterior, "few": small},
        x_test, y_test, reference="all")` says what is lost at held-out rows.

        Args:
            k: at least 1, and below the number of draws.
            x: inputs (N, ...) like those to be predicted, prepared as the training inputs were:
                hundreds, such as the training rows. Of more than 2000 function values a draw, rows
                are spread evenly; of more than 4096 draws, so many evenly spaced ones are compared.
            memory: bytes that intermediate arrays may take, about, in addition to the distances.

        Returns:
            A posterior of one chain of k draws, each with the weight 1/k. `diagnose` refuses it.
            Its statistics `source_chain` and `source_draw` say where each draw comes from.
            `provenance["selection"]` has the energy distance at `x`, and `random_draws`, the number
            of random draws that would be as near on average at these rows.

        Raises:
            ValueError: k is too large; model or weights are missing; or the functions are not
                finite, or all the same.

        Example:
            >>> import bayesnn_ppl as bnn
            >>> data = bnn.data.load("diabetes")
            >>> kernel = bnn.kernels.HMC(bnn.models.linear(), num_leapfrogs=8)
            >>> run = bnn.sample(kernel, *data.train, warmup=9, draws=9, chains=1,
            ...                  progress=False)
            >>> run.compress(4, data.train.x).draws["noise_scale"].shape
            (1, 4)
        """
        from bayesnn_ppl.posterior.compression import compress

        small = compress(self, k, x, memory)
        small.data = self.data
        return small

    @strict_switches
    def export(
        self,
        path: str | Path,
        x: Any,
        *,
        components: bool = False,
        platforms: Sequence[str] = ("cpu",),
        memory: int = _MEMORY,
    ) -> Path:
        """Write predictions as a function for production, which needs JAX and flatbuffers alone.

        The folder holds `function.jax`, a function (draws, x) serialized by `jax.export`, for any
        number of rows; its draws in `draws.npz`; names and units in `about.json`; and
        `example.npz`, rows with their outputs. Inputs and outputs are in the data's units if the
        run knows how its data were standardised. The function computes all draws: `compress` them
        before.

        Outputs of numbers are `mean`, `sd`, `aleatoric_sd` and `epistemic_sd`, each (N, ...); of
        labels `probabilities` (N, ..., K), `entropy` and `mutual_information` (N, ...).

        Args:
            path: a folder, new or empty.
            x: a row or more, as `predict` takes them. At the first 8 the function is compared with
                `predict`.
            components: return what each draw says instead, `mean` and `sd` (S, N, ...) or
                `probabilities` (S, N, ..., K).
            platforms: what the function may run on, among "cpu", "cuda", "rocm" and "tpu"; "cpu"
                always is.
            memory: bytes that intermediate arrays may take, about.

        Returns:
            The folder.

        Raises:
            FileExistsError: the folder holds something.
            ImportError: flatbuffers is not installed.
            ValueError: model or weights are missing; the model cannot be exported; an unknown
                platform; or rounding in the data's units changes the predictions.
        """
        from bayesnn_ppl.posterior.exporting import export

        return export(self, path, x, components=components, platforms=platforms, memory=memory)

    @classmethod
    def load(cls, path: str | Path, model: Any = None, *, thin: int = 1) -> Self:
        """Open a saved posterior. See `load`."""
        thin = integer(thin, "`thin`", at_least=1)
        tree = storage.read(storage.fetched(path), thin=thin)
        run = storage.read_attributes(tree)
        known = tree["posterior"].data_vars if "posterior" in tree.children else ()
        absent = [name for name in run.get("site_names", ()) if known and name not in known]
        if absent or "site_names" not in run:
            raise ValueError(
                f"The run at `{path}` is damaged: its config.json names "
                + (f"the site `{absent[0]}`, of which" if absent else "no sites, of whose draws")
                + " nothing is stored."
            )
        made_with = run.get("model")
        if model is not None and made_with is not None and describe(model) != made_with:
            raise ValueError(
                f"The draws at `{path}` are of another model. They were made with\n"
                f"  {made_with}\nand the model given is\n  {describe(model)}\n"
                "Give the model that made them."
            )
        posterior = cls(tree)
        posterior.model = posterior._predicting(model)
        return posterior

    def _predicting(self, model: Any) -> Any:
        """The model that the draws predict by: that of a fit may be linearised at its mode."""
        run = self.provenance
        fit = run.get("approximation") or {}
        if model is None or fit.get("predictive") != "linearised":
            return model
        from bayesnn_ppl.nn.linearised import linearised_at

        sites = {site: name for name, site in run["site_names"].items()}
        mode = self.tree[storage.STARTS[0]].data_vars
        values = {site: mode[sites[site]].values[0] for site in run["latents"]}
        rows = np.zeros((1, *run["input_shape"]), run["input_dtype"])
        with arithmetic(float64=run["precision"] == "float64"):
            return linearised_at(model, values, rows, fit.get("sites"))


def load(path: str | Path, model: Any = None, *, thin: int = 1) -> Posterior:
    """Open a run, finished or not, or what `Posterior.save` wrote.

    Args:
        path: the folder.
        model: the NumPyro model, for predictions at new inputs; all else opens without it.
        thin: take the last of every `thin` draws and leave the others on the disk.

    Raises:
        FileNotFoundError: no posterior is there.
        ValueError: the draws are of another model, or there are fewer than `thin`. A model
            made of parts is compared by them, a function by its name, its source, and the values
            that it takes from its closure and from globals.
    """
    return Posterior.load(path, model, thin=thin)
