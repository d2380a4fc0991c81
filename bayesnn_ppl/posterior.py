"""The result of every inference method: draws, statistics, provenance and what follows."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import xarray as xr

from bayesnn_ppl import storage
from bayesnn_ppl.arrays import check_array
from bayesnn_ppl.components import Components
from bayesnn_ppl.identity import describe
from bayesnn_ppl.prediction import Prediction, function_values, row_log_likelihood

if TYPE_CHECKING:
    from bayesnn_ppl.diagnostics import Diagnosis

__all__ = ["Posterior", "Prediction", "load"]

_MEMORY = 2**29
_MOST_PROBES = 20_000  # function values per draw; more say nothing more about convergence


class Posterior:
    """Draws from a posterior, as an ArviZ DataTree with the program that made them.

    Attributes:
        tree: `xarray.DataTree` with the groups `posterior` and `sample_stats`; the provenance
            stands in its attributes.
        model: the program, or None where the posterior was loaded without it.
    """

    def __init__(self, tree: xr.DataTree, model: Any = None) -> None:
        self.tree = tree
        self.model = model

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
        return cls(storage.build_tree(renamed, statistics, attributes), model)

    def __repr__(self) -> str:
        run = self.provenance
        return (
            f"<Posterior of {len(run['site_names'])} variables, {run.get('chains')} chains × "
            f"{run.get('draws')} draws by {run.get('kernel')}; "
            "see .diagnose(x), .predict(x), .draws, .tree>"
        )

    @property
    def draws(self) -> dict[str, np.ndarray]:
        """Variable name, such as `net.Dense_0.kernel`, -> array (chain, draw, ...)."""
        # In the program's order: a store on disk lists its arrays in any order.
        variables = self.tree["posterior"].data_vars
        return {name: variables[name].values for name in self.provenance["site_names"]}

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

    def _components(self, x: Any, memory: int) -> Components:
        if self.model is None:
            raise ValueError(
                "This posterior was loaded without its program, and predictions need it: "
                "`load(path, model=...)`."
            )
        run = self.provenance
        if run.get("local"):
            raise ValueError(
                f'The program has latent sites inside the plate "data", {run["local"]}: one value '
                "for each training row, and none for new ones. Predict with "
                "`numpyro.infer.Predictive`, which draws them anew."
            )
        float64 = run["precision"] == "float64"
        x = check_array(x, "x", float64=float64)
        shape = tuple(run.get("input_shape", x.shape[1:]))
        if x.shape[1:] != shape:
            raise ValueError(
                f"`x` has rows of shape {x.shape[1:]}, but the model was trained on rows of shape "
                f"{shape}."
            )
        return Components(self.model, self._latents(), x, memory=memory, float64=float64)

    def _latents(self) -> dict[str, np.ndarray]:
        """Latent site -> array (chain · draw, ...)."""
        run = self.provenance
        sites = {site: name for name, site in run["site_names"].items()}
        draws = self.draws
        return {
            site: draws[sites[site]].reshape(-1, *draws[sites[site]].shape[2:])
            for site in run["latents"]
        }

    def predict(self, x: Any, *, memory: int = _MEMORY) -> Prediction:
        """The posterior predictive distribution at `x`, in the data's units.

        Args:
            x: inputs (N, ...), prepared as the training inputs were.
            memory: bytes that intermediate arrays may take, about.

        Raises:
            ValueError: no program, or `x` is not an array of finite numbers.
        """
        units = self.standardisation
        centre, scale = (units["y_mean"], units["y_scale"]) if units else (0.0, 1.0)
        return Prediction(self._components(x, memory), centre=centre, scale=scale)

    def log_likelihood(self, x: Any, y: Any, *, memory: int = _MEMORY) -> np.ndarray:
        """log p(y_i|x_i, θ) of each draw, untempered, shape (chain, draw, N).

        Args:
            x: inputs (N, ...).
            y: targets (N, ...), in the units the model was given. The density is per data unit,
                as that of `Prediction.log_prob`.
            memory: bytes that intermediate arrays may take, about.
        """
        prediction = self.predict(x, memory=memory)
        return self._by_chain(row_log_likelihood(prediction, y))

    def function_values(self, x: Any, *, memory: int = _MEMORY) -> dict[str, np.ndarray]:
        """What each draw's network says at `x`, in the units the model was given.

        Returns:
            For labels `{"probability": (chain, draw, N, ..., K)}`, otherwise
            `{"mean": (chain, draw, N, ...), "sd": ...}`, where `sd` has N = 1 when the noise does
            not depend on x, and is left out when it is fixed.
        """
        values = function_values(self._components(x, memory))
        return {name: self._by_chain(a) for name, a in values.items()}

    def _by_chain(self, array: np.ndarray) -> np.ndarray:
        sizes = self.tree["posterior"].sizes
        return array.reshape(sizes["chain"], sizes["draw"], *array.shape[1:])

    def diagnose(self, x: Any = None, *, memory: int = _MEMORY, **settings: Any) -> "Diagnosis":
        """Has the sampler converged? Function space first, then weights, then the sampler.

        Args:
            x: probe inputs (N, ...), best those the predictions are wanted for. Without them
                only weights and sampler are judged, and there is no verdict.
            memory: bytes that intermediate arrays may take, about.
            **settings: thresholds, see `diagnostics.diagnose`.
        """
        from bayesnn_ppl.diagnostics import diagnose as diagnose_arrays

        functions = {}
        if x is not None:
            x = np.asarray(x)
            functions = self.function_values(self._probes(x, memory), memory=memory)
        kernel = self.provenance.get("kernel_settings", {})
        known = {
            # NumPyro's HMC has the attribute too, but no trees.
            "max_tree_depth": kernel.get("max_tree_depth") if self._has_trees() else None,
            "target_acceptance": kernel.get("target_accept_prob"),
        }
        return diagnose_arrays(functions, self.draws, self.statistics, **(known | settings))

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
        return storage.write(self.tree, Path(path))

    @classmethod
    def load(cls, path: str | Path, model: Any = None) -> Self:
        """Open a saved posterior. See `load`."""
        posterior = cls(storage.read(Path(path)), model)
        made_with = posterior.provenance.get("model")
        if model is not None and made_with is not None and describe(model) != made_with:
            raise ValueError(
                f"The draws at `{path}` are of another program. They were made with\n"
                f"  {made_with}\nand the model given is\n  {describe(model)}"
            )
        return posterior


def load(path: str | Path, model: Any = None) -> Posterior:
    """Open a posterior that `Posterior.save` wrote.

    Args:
        path: the folder.
        model: the program, for predictions; draws and statistics open without it.

    Raises:
        FileNotFoundError: no posterior is there.
        ValueError: the draws are of another program. A program made of parts is compared by
            them, a function by its name and source.
    """
    return Posterior.load(path, model)
