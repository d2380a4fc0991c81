"""Draws as they are stored: a tree of arrays with its provenance, read by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import xarray as xr

from bayesnn_ppl import storage
from bayesnn_ppl.core.arguments import html_table, strict_switches

__all__ = ["StoredDraws", "latents_by_site"]

_MOST_SHOWN = 12  # variables in the table of a notebook
_ELSEWHERE = (
    "Draws from elsewhere are judged by `bayesnn_ppl.diagnostics.diagnose(functions, draws, "
    "statistics)`, and become a posterior by `Posterior.from_arrays`."
)


class StoredDraws:
    """What a `Posterior` reads off its tree, without its model.

    Raises:
        TypeError: `tree` is not an `xarray.DataTree`.
        ValueError: it is not of this library.
    """

    def __init__(self, tree: xr.DataTree, model: Any = None) -> None:
        if not isinstance(tree, xr.DataTree):
            raise TypeError(
                f"`tree` is a {type(tree).__name__}, and must be an `xarray.DataTree`, such as "
                f"`posterior.tree`. {_ELSEWHERE}"
            )
        if "site_names" not in storage.read_attributes(tree):
            raise ValueError(
                "The tree is not of this library: `site_names` is missing in its attribute "
                f"`bayesnn_ppl`, which says what was sampled and how. {_ELSEWHERE} If a step "
                "dropped the attributes of a tree of this library, copy them: "
                "`tree.attrs.update(posterior.tree.attrs)`."
            )
        self.tree = storage.chains_first(tree)
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
            model: the NumPyro model.
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
        kept = f", kept: {words[0]}" if words else ""
        chosen = self.provenance.get("selection")
        return kept + (f", chosen from {chosen['of']}" if chosen else "")

    @property
    def has_weights(self) -> bool:
        """Whether the run kept draws of its weights, and did not end before the first of them."""
        return self.kept_draws > 0

    @property
    def kept_draws(self) -> int:
        """Of how many draws of each chain the weights were kept."""
        group = self.tree.children.get("posterior")
        return 0 if group is None else int(group.sizes.get("draw", 1))

    @property
    def knows_more_at_probe(self) -> bool:
        """Whether function values at probe inputs were kept of more draws than weights were."""
        return self.probe is not None and self.kept_draws < int(self.provenance["draws"])

    @property
    def draws(self) -> dict[str, np.ndarray]:
        """Variable name, such as `net.Dense_0.kernel`, -> array (chain, draw, ...).

        Empty where the run did not keep its weights. These are names for ArviZ; `samples` has
        those that NumPyro's functions know.
        """
        if not self.has_weights:
            return {}
        # In the order of the record: a store on disk lists its arrays in any order.
        names = self.provenance["site_names"]
        return {name: storage.read_values(self.tree, "posterior", name) for name in names}

    @strict_switches
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
        names = map(str, self.tree["sample_stats"].data_vars)
        return {name: storage.read_values(self.tree, "sample_stats", name) for name in names}

    @property
    def provenance(self) -> dict[str, Any]:
        """Versions, seed, PRNG, precision, devices, temperatures, wall time by phase, ..."""
        return storage.read_attributes(self.tree)

    @property
    def standardisation(self) -> dict[str, Any] | None:
        """How the data were standardised, or None."""
        return self.provenance["standardisation"]

    @property
    def scalars(self) -> list[str]:
        """Variables of one number a draw, such as a noise scale: a few panels for ArviZ's plots."""
        if not self.has_weights:
            return []
        found = self.tree["posterior"].data_vars
        return [name for name in self.provenance["site_names"] if found[name].ndim == 2]

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
            str(name): storage.read_values(self.tree, "predictions", str(name)).reshape(
                -1, *a.shape[2:]
            )
            for name, a in self.tree["predictions"].data_vars.items()
        }

    def _by_chain(self, array: np.ndarray, group: str) -> np.ndarray:
        sizes = self.tree[group].sizes
        return array.reshape(sizes["chain"], sizes["draw"], *array.shape[1:])

    def save(self, path: str | Path) -> Path:
        """Write draws, statistics and provenance to a folder; no code and no pickle.

        Raises:
            FileExistsError: the folder exists and is not empty.
        """
        return storage.write(self.tree, storage.working_copy(path))


def latents_by_site(posterior: StoredDraws) -> dict[str, np.ndarray]:
    """Latent site -> array (chain · draw, ...)."""
    run = posterior.provenance
    sites = {site: name for name, site in run["site_names"].items()}
    draws = posterior.draws
    return {
        site: draws[sites[site]].reshape(-1, *draws[sites[site]].shape[2:])
        for site in run["latents"]
    }
