"""The result of every inference method: draws, statistics, provenance and what follows."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import xarray as xr

from bayesnn_ppl import storage
from bayesnn_ppl.core.arguments import html_table, whole_number
from bayesnn_ppl.core.arrays import check_array
from bayesnn_ppl.core.identity import describe
from bayesnn_ppl.core.precision import arithmetic
from bayesnn_ppl.data.new_inputs import standardised, warn_outside
from bayesnn_ppl.posterior.components import Components
from bayesnn_ppl.posterior.prediction import Prediction, brief_sd, function_values
from bayesnn_ppl.posterior.recorded_prediction import RecordedPrediction

if TYPE_CHECKING:
    from bayesnn_ppl.diagnostics import Diagnosis, FitDiagnosis, Thermometry

__all__ = ["Posterior", "Prediction", "load"]

_MEMORY = 2**29
_MOST_SHOWN = 12  # variables in the table of a notebook
_MOST_PROBES = 20_000  # function values per draw; more say nothing more about convergence


class Posterior:
    """Draws from a posterior, as an ArviZ DataTree with the program that made them.

    Attributes:
        tree: `xarray.DataTree` with the groups `posterior` and `sample_stats`; the provenance
            stands in its attributes. What `Keep` asked for besides: `predictions`, function values
            at the probe, which is `predictions_constant_data`; `posterior_mean` and
            `posterior_variance` (chain, ...), in place of `posterior`. `with_groups` adds those
            that ArviZ's functions look for.
        model: the program, or None where the posterior was loaded without it.
        data: the training data `(x, y)`, where `sample` or `fit` made the posterior in this process
            from arrays; not stored with it.
    """

    def __init__(self, tree: xr.DataTree, model: Any = None) -> None:
        self.tree = tree
        self.model = model
        self.data: tuple[Any, Any] | None = None

    @classmethod
    def from_arrays(
        cls,
        draws: Mapping[str, np.ndarray],
        statistics: Mapping[str, np.ndarray],
        attributes: Mapping[str, Any],
        *,
        model: Any = None,
        standardisation: Any = None,
    ) -> Self:
        """Build one from arrays (chain, draw, ...), named by NumPyro's sites.

        Args:
            draws: site name -> constrained values.
            statistics: name -> array (chain, draw).
            attributes: JSON-ready provenance; `latents` lists the sites that predictions
                substitute (deterministic ones are recomputed).
            model: the program.
            standardisation: of the targets, with `to_dict()`; None when they were as they are.
        """
        names = storage.variable_names(draws)
        attributes = dict(attributes) | {
            "site_names": {names[site]: site for site in draws},
            "standardisation": None if standardisation is None else standardisation.to_dict(),
        }
        renamed = {names[site]: array for site, array in draws.items()}
        return cls.from_groups(
            {"posterior": renamed, "sample_stats": dict(statistics)}, attributes, model=model
        )

    @classmethod
    def from_groups(
        cls,
        groups: Mapping[str, Mapping[str, np.ndarray]],
        attributes: Mapping[str, Any],
        *,
        moments: Mapping[str, np.ndarray] | None = None,
        probe: Mapping[str, np.ndarray] | None = None,
        starts: Mapping[str, np.ndarray] | None = None,
        model: Any = None,
    ) -> Self:
        """Build one from the arrays of its groups; see `storage.build_tree`."""
        tree = storage.build_tree(
            groups,
            attributes,
            every=attributes.get("every"),
            moments=moments,
            probe=probe,
            starts=starts,
        )
        return cls(tree, model)

    def __repr__(self) -> str:
        run = self.provenance
        return (
            f"<Posterior of {len(run['site_names'])} variables, {run.get('chains')} chains × "
            f"{run.get('draws')} draws by {run.get('kernel')}{self._kept_words()}; "
            "see .diagnose(x), .predict(x), .draws, .tree>"
        )

    def _repr_html_(self) -> str:
        run = self.provenance
        rows = [
            ("method", str(run.get("kernel"))),
            ("draws", f"{run.get('chains')} chains × {run.get('draws')}{self._kept_words()}"),
            ("data", f"{run.get('rows')} rows of shape {tuple(run.get('input_shape', ()))}"),
        ]
        for name in ("likelihood_temperature", "posterior_temperature"):
            if run.get(name, 1.0) != 1.0:
                rows.append((name.replace("_", " "), f"{run[name]:g}"))
        shapes = self._shapes()
        rows += [(name, str(shape)) for name, shape in list(shapes.items())[:_MOST_SHOWN]]
        if len(shapes) > _MOST_SHOWN:
            rows.append(("...", f"{len(shapes)} variables in all"))
        return html_table("Posterior", rows)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Variable name -> shape of one draw, read without its values; empty without weights."""
        for group, leading in (("posterior", 2), (storage.MOMENTS[0], 1)):
            if group in self.tree.children:
                arrays = self.tree[group].data_vars
                names = self.provenance["site_names"]
                return {name: arrays[name].shape[leading:] for name in names}
        return {}

    def _kept_words(self) -> str:
        keep = self.provenance.get("keep", {})
        words = []
        if keep.get("weights", "all") != "all":
            words.append(
                "function values" if keep["weights"] == "none" else "moments of the weights"
            )
        elif keep.get("every", 1) > 1:
            words.append(f"the weights of every {keep['every']}th")
        return f", kept: {words[0]}" if words else ""

    @property
    def has_weights(self) -> bool:
        """Whether the run kept draws of its weights."""
        return "posterior" in self.tree.children

    @property
    def draws(self) -> dict[str, np.ndarray]:
        """Variable name, such as `net.Dense_0.kernel`, -> array (chain, draw, ...).

        Empty where the run did not keep its weights. These are names for ArviZ; `samples` has
        those that NumPyro's functions know.
        """
        if not self.has_weights:
            return {}
        # In the order of the record: a store on disk lists its arrays in any order.
        variables = self.tree["posterior"].data_vars
        return {name: variables[name].values for name in self.provenance["site_names"]}

    def samples(self, *, group_by_chain: bool = False) -> dict[str, np.ndarray]:
        """Site, such as `net/Dense_0.kernel`, -> draws, as `MCMC.get_samples` gives them.

        For `numpyro.infer.Predictive` and `log_likelihood`.

        Args:
            group_by_chain: (chain, draw, ...) instead of (chain · draw, ...).

        Raises:
            ValueError: the run did not keep its weights.
        """
        if not self.has_weights:
            raise ValueError("The run kept no draws of its weights.")
        draws, sites = self.draws, self.provenance["site_names"]
        return {
            site: draws[name] if group_by_chain else draws[name].reshape(-1, *draws[name].shape[2:])
            for name, site in sites.items()
        }

    @property
    def moments(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Variable name -> mean and variance over the draws of each chain, (chain, ...).

        Of what a run kept in place of its weights, or else of the kept weights.
        """
        if storage.MOMENTS[0] in self.tree.children:
            mean, variance = (self.tree[group].data_vars for group in storage.MOMENTS)
            names = self.provenance["site_names"]
            return {name: (mean[name].values, variance[name].values) for name in names}
        return {
            name: (a.mean(axis=1, dtype=np.float64), a.var(axis=1, dtype=np.float64))
            for name, a in self.draws.items()
        }

    @property
    def probe(self) -> tuple[np.ndarray, np.ndarray | None] | None:
        """Inputs, and targets or None, at which function values were kept; None if none were."""
        if storage.PROBE not in self.tree.children:
            return None
        arrays = self.tree[storage.PROBE].data_vars
        return arrays["x"].values, arrays["y"].values if "y" in arrays else None

    @property
    def statistics(self) -> dict[str, np.ndarray]:
        """Statistic name, such as `diverging`, -> array (chain, draw)."""
        return {str(name): a.values for name, a in self.tree["sample_stats"].data_vars.items()}

    @property
    def provenance(self) -> dict[str, Any]:
        """Versions, seed, PRNG, precision, devices, temperatures, wall time by phase, ..."""
        return storage.read_attributes(self.tree)

    @property
    def standardisation(self) -> dict[str, Any] | None:
        """How the data were standardised, or None."""
        return self.provenance["standardisation"]

    def _components(
        self, x: Any, memory: int, latents: Mapping[str, np.ndarray] | None = None
    ) -> Components:
        if self.model is None:
            raise ValueError(
                "This posterior was loaded without its program, and predictions need it: "
                "`load(path, model=...)`."
            )
        run = self.provenance
        if not self.has_weights:
            raise ValueError(
                "The run kept no weights, and predictions at new inputs need them. At its probe "
                "`predict()`, `function_values()` and `diagnose()` need no inputs."
                if self.probe is not None
                else "The run kept the moments of its weights alone, and predictions need draws."
            )
        if run.get("local"):
            raise ValueError(
                f"The program has latent sites of single rows, {run['local']}: one value "
                "for each training row, and none for new ones. Predict with "
                "`numpyro.infer.Predictive` and `posterior.samples()`, less these sites, which it "
                "then draws again."
            )
        float64 = run["precision"] == "float64"
        x = check_array(x, "x", float64=float64)
        shape = tuple(run.get("input_shape", x.shape[1:]))
        if x.shape[1:] != shape:
            raise ValueError(
                f"`x` has rows of shape {x.shape[1:]}, but the model was trained on rows of shape "
                f"{shape}.{' Give one row as `rows[None]`.' if x.shape == shape else ''}"
            )
        latents = self._latents() if latents is None else latents
        return Components(self.model, latents, x, memory=memory, float64=float64)

    def _latents(self) -> dict[str, np.ndarray]:
        """Latent site -> array (chain · draw, ...)."""
        run = self.provenance
        sites = {site: name for name, site in run["site_names"].items()}
        draws = self.draws
        return {
            site: draws[sites[site]].reshape(-1, *draws[sites[site]].shape[2:])
            for site in run["latents"]
        }

    def predict(self, x: Any = None, *, raw: bool = False, memory: int = _MEMORY) -> Prediction:
        """The posterior predictive distribution at `x`, in the data's units.

        Args:
            x: inputs (N, ...), prepared as the training inputs were. None: the probe of the
                run, from the function values kept there; that needs neither program nor weights.
            raw: `x` is in the data's units, and is standardised here as the training rows were:
                an array with the features in the order of training, or a table of pandas or
                polars, whose columns are matched by name.
            memory: bytes that intermediate arrays may take, about.

        Raises:
            ValueError: no program, no weights, no probe, `x` is not an array of finite numbers, or
                `raw` of rows that are standardised already, of a table that lacks a feature, or of
                a run that does not know how its inputs were standardised.

        Warns:
            UserWarning: inputs lie far outside those of training.
        """
        run = self.provenance
        if raw:
            x = standardised(x, run)
        units = run["standardisation"]
        known: dict[str, Any] = {
            "centre": units["y_mean"] if units else 0.0,
            "scale": units["y_scale"] if units else 1.0,
            "class_names": (run.get("dataset") or {}).get("class_names"),
        }
        if x is None:
            return RecordedPrediction(self._recorded(), self._probe()[1], **known)
        components = self._components(x, memory)
        warn_outside(components.x, run, given=x)
        return Prediction(components, **known)

    def is_trained_on(self, x: Any, y: Any) -> bool:
        """Whether these are the training data, prepared as `sample` was given them.

        Args:
            x, y: all training rows, (N, ...) each.
        """
        from bayesnn_ppl.diagnostics.potential_energy.potential import WrongDataError, check_data

        try:
            check_data(self, x, y)
        except WrongDataError:
            return False
        return True

    def _probe(self) -> tuple[np.ndarray, np.ndarray | None]:
        probe = self.probe
        if probe is None:
            raise ValueError(
                "The run kept no function values, so inputs must be given: `x`. A run that is "
                "sampled with `keep=Keep(probe=(x, y))` needs none."
            )
        return probe

    def _recorded(self) -> dict[str, np.ndarray]:
        """Kept function values over all draws, name -> (S, ...)."""
        self._probe()
        return {
            str(name): a.values.reshape(-1, *a.shape[2:])
            for name, a in self.tree["predictions"].data_vars.items()
        }

    def log_likelihood(self, x: Any = None, y: Any = None, *, memory: int = _MEMORY) -> np.ndarray:
        """log p(y_i|x_i, θ) of each draw, untempered, shape (chain, draw, N).

        Args:
            x: inputs (N, ...); None for those of the probe.
            y: targets (N, ...), in the units the model was given. The density is per data unit,
                as that of `Prediction.log_prob`. None, with `x` None, for those of the probe.
            memory: bytes that intermediate arrays may take, about.
        """
        prediction = self.predict(x, memory=memory)
        if x is None and y is None:
            y = self._probe()[1]
        group = "predictions" if x is None else "posterior"
        return self._by_chain(prediction.row_log_likelihood(y), group)

    def function_values(self, x: Any = None, *, memory: int = _MEMORY) -> dict[str, np.ndarray]:
        """What each draw's network says at `x`, in the units the model was given.

        Args:
            x: inputs (N, ...); None for those of the probe, as they were kept.
            memory: bytes that intermediate arrays may take, about.

        Returns:
            For labels `{"probability": (chain, draw, N, ..., K)}`, otherwise
            `{"mean": (chain, draw, N, ...), "sd": ...}`, where `sd` has N = 1 when the noise does
            not depend on x, and is left out when it is fixed. Of a Cauchy distribution they are
            its centre and its scale.
        """
        if x is None:
            kept = self._recorded()
            labels = "probability" in kept
            values = (
                {"probability": kept["probability"]}
                if labels
                else {"mean": kept["mean"]} | brief_sd(kept["sd"])
            )
            return {name: self._by_chain(a, "predictions") for name, a in values.items()}
        components = self._components(x, memory)
        warn_outside(components.x, self.provenance, given=x)
        values = function_values(components)
        return {name: self._by_chain(a, "posterior") for name, a in values.items()}

    def function_slopes(
        self, x: Any, latents: Mapping[str, np.ndarray], tangents: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """What the network says at `x` for other latent values, and its derivatives.

        Args:
            x: inputs (N, ...).
            latents: latent site -> constrained values (S, ...).
            tangents: latent site -> K directions of each, (S, K, ...).

        Returns:
            Label -> values (S, N, ...), as `function_values`, and -> derivatives (S, K, N, ...).
        """
        components = self._components(x, _MEMORY, latents)
        return function_values(components), components.slopes(tangents)

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
                or `fit` was given in this process, or the probe of the run where that is the
                training data. `functions` alone takes any x, and no y.
            tempered: densities to the power 1/T, as they stand in the density of the draws, which
                is what `az.psense_summary` needs of them. `az.loo` needs those without.
            seed: of the predictive samples.
            memory: bytes that intermediate arrays may take, about.

        Raises:
            ValueError: an unknown group; no data are known, or they are not the run's; or the
                program or the weights are missing.

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

    @property
    def scalars(self) -> list[str]:
        """Variables of one number a draw, such as a noise scale: a few panels for ArviZ's plots."""
        if not self.has_weights:
            return []
        found = self.tree["posterior"].data_vars
        return [name for name in self.provenance["site_names"] if found[name].ndim == 2]

    def _by_chain(self, array: np.ndarray, group: str) -> np.ndarray:
        sizes = self.tree[group].sizes
        return array.reshape(sizes["chain"], sizes["draw"], *array.shape[1:])

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
            x: probe inputs (N, ...), best those the predictions are wanted for. None: the probe
                of the run; a run without one is judged by weights and sampler alone, and there
                is no verdict.
            data: the training data `(x, y)` as `sample` was given them.
            gradients: at how many draws the gradient over all data is computed. None: 2000, or as
                many as take a few seconds; 0 for none.
            memory: bytes that intermediate arrays may take, about.
            **settings: thresholds, see `diagnostics.diagnose`; and `temperatures`, what
                `temperatures(x, y, probe=...)` returned, in place of those read here.

        Raises:
            ValueError: nothing was kept that could be judged, or `data` are not those of the run.
        """
        from bayesnn_ppl.diagnostics import diagnose as diagnose_arrays
        from bayesnn_ppl.diagnostics import diagnose_fit
        from bayesnn_ppl.diagnostics.temperature.posterior_temperature import (
            temperatures_for_diagnosis,
        )

        run = self.provenance
        if run.get("approximation") is not None:
            if settings or gradients is not None:
                given = sorted(settings) or ["gradients"]
                raise ValueError(
                    f"{given} are settings for chains of a sampler, and this posterior was "
                    "fitted. Leave them out."
                )
            return diagnose_fit(run)
        functions = {}
        if x is not None:
            x = self._probes(np.asarray(x), memory)
            functions = self.function_values(x, memory=memory)
        elif self.probe is not None:
            functions = self.function_values()
        draws = self.draws
        if not functions and not draws:
            raise ValueError(
                "The run kept the moments of its weights and nothing to judge convergence by. "
                'Sample with a probe, `Keep(weights="moments", probe=(x, y))`.'
            )
        kernel = run.get("kernel_settings", {})
        kernel = kernel.get("inner_kernel", {}) | kernel
        known = {
            # NumPyro's HMC has the attribute too, but no trees.
            "max_tree_depth": kernel.get("max_tree_depth") if self._has_trees() else None,
            "target_acceptance": kernel.get("target_accept_prob"),
            "starts": self._starting_functions(x, functions, memory),
            "accept_step": run.get("accept_step"),
            "kernel": run.get("kernel", "the sampler"),
        }
        if not known["accept_step"] and "temperatures" not in settings:
            probe = x if x is not None or self.probe is None else self.probe[0]
            known["temperatures"], known["no_temperatures"] = temperatures_for_diagnosis(
                self, self.data if data is None else data, probe, gradients
            )
        return diagnose_arrays(functions, draws, self.statistics, **(known | settings))

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

    def _starting_functions(
        self, x: Any, functions: Mapping[str, np.ndarray], memory: int
    ) -> dict[str, np.ndarray]:
        """What the networks said where the chains started, (chain, N, ...); empty if not known."""
        kept, at_probe = storage.STARTS
        if not functions or kept not in self.tree.children:
            return {}
        if x is None:
            found = {str(n): a.values for n, a in self.tree[at_probe].data_vars.items()}
        else:
            starts = self.tree[kept].data_vars
            sites = {site: name for name, site in self.provenance["site_names"].items()}
            latents = {site: starts[sites[site]].values for site in self.provenance["latents"]}
            found = function_values(self._components(x, memory, latents))
        return {name: a for name, a in found.items() if name in functions and name != "sd"}

    def _has_trees(self) -> bool:
        return "tree_depth" in self.tree["sample_stats"]

    def _probes(self, x: np.ndarray, memory: int) -> np.ndarray:
        shape = self._components(x[:1], memory).distribution.shape()
        most = max(1, _MOST_PROBES // int(np.prod(shape)))
        if len(x) <= most:
            return x
        return x[np.linspace(0, len(x) - 1, most).astype(int)]

    def save(self, path: str | Path) -> Path:
        """Write draws, statistics and provenance to a folder; no code and no pickle.

        Raises:
            FileExistsError: the folder exists and is not empty.
        """
        return storage.write(self.tree, storage.working_copy(path))

    @classmethod
    def load(cls, path: str | Path, model: Any = None, *, thin: int = 1) -> Self:
        """Open a saved posterior. See `load`."""
        thin = whole_number(thin, "`thin`", at_least=1)
        posterior = cls(storage.read(storage.fetched(path), thin=thin), model)
        run = posterior.provenance
        known = posterior.tree["posterior"].data_vars if posterior.has_weights else ()
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
                f"The draws at `{path}` are of another program. They were made with\n"
                f"  {made_with}\nand the model given is\n  {describe(model)}\n"
                "Give the program that made them."
            )
        posterior.model = posterior._predicting(model)
        return posterior

    def _predicting(self, model: Any) -> Any:
        """The program that the draws predict by: that of a fit may be linearised at its mode."""
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
        model: the program, for predictions at new inputs; all else opens without it.
        thin: take the last of every `thin` draws and leave the others on the disk.

    Raises:
        FileNotFoundError: no posterior is there.
        ValueError: the draws are of another program, or there are fewer than `thin`. A program
            made of parts is compared by them, a function by its name and source.
    """
    return Posterior.load(path, model, thin=thin)
