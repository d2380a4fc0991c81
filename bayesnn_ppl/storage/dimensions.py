"""What the axes of stored arrays are called, and their coordinates.

    net.Dense_0.kernel   chain, draw, net.Dense_0.kernel_in, net.Dense_0.kernel_out
    net.Dense_0.bias     chain, draw, net.Dense_0.bias_out
    net.Conv_0.kernel    chain, draw, net.Conv_0.kernel_height, ..._width, ..._in, ..._out
    w                    chain, draw, w_dim_0
    mean                 chain, draw, row                      (function values)

Every axis has integer coordinates: ArviZ's plots select panels by them.
"""

from collections.abc import Hashable

import numpy as np
import xarray as xr

# Groups whose arrays have a row for each input, after chain and draw where they have those.
ROW_GROUPS = (
    "predictions",
    "predictions_constant_data",
    "starts_functions",
    "log_likelihood",
    "posterior_predictive",
    "observed_data",
    "constant_data",
    "functions",
)
_SPACE = ("depth", "height", "width")
_KINDS = ("in", "out", *_SPACE)
_MOST_COORDINATES = 10_000_000  # of one axis: a store from anywhere may say that it is longer


def dimension_names(
    name: str, ndim: int, group: str = "posterior", leading: tuple[str, ...] = ("chain", "draw")
) -> tuple[str, ...]:
    """Names of all axes of a variable, the `leading` ones included.

    Those of the groups `ROW_GROUPS` have rows.
    """
    count = ndim - len(leading)
    if group in ROW_GROUPS:
        rest = tuple(f"{name}_dim_{i}" for i in range(count - 1))
        if name == "probability" and rest:
            rest = (*rest[:-1], "class")
        return (*leading, *(("row", *rest) if count else ()))
    kinds = _kinds(name, count)
    return (*leading, *(f"{name}_{kind}" for kind in kinds))


def _kinds(name: str, count: int) -> tuple[str, ...]:
    """What each axis of one draw is, by Flax's conventions; `dim_<i>` where that is not known."""
    module, _, leaf = name.rpartition(".")
    # The scale of a parameter's prior has the parameter's axes.
    if leaf == "scale" and module.rpartition(".")[2] in ("kernel", "embedding", "bias"):
        module, _, leaf = module.rpartition(".")
    plain = tuple(f"dim_{i}" for i in range(count))
    if not module or count == 0:
        return plain
    if leaf in ("bias", "scale"):  # the latter of a normalisation
        return ("out",) if count == 1 else plain
    if leaf not in ("kernel", "embedding"):
        return plain
    if count == 2:
        return ("in", "out")
    # Attention has kernels of three axes too, which are not space axes.
    convolution = count in (4, 5) or (count == 3 and "conv" in name.lower())
    return (*_SPACE[5 - count :], "in", "out") if convolution else plain


def is_dimension(name: str, variables: set[str]) -> bool:
    """Whether a variable of this name could be taken for an axis of one of the others."""
    if name in ("chain", "draw"):
        return True
    other, dimension, number = name.rpartition("_dim_")
    if dimension and number.isdigit() and other in variables:
        return True
    other, _, kind = name.rpartition("_")
    return kind in _KINDS and other in variables and "." in other


def labelled(dataset: xr.Dataset, group: str) -> xr.Dataset:
    """A group with this version's names of axes and integer coordinates on each.

    Runs made before axes had names have `<name>_dim_<i>` and no coordinates.
    """
    renamed: dict[Hashable, str] = {}
    for name, array in dataset.data_vars.items():
        leading = tuple(str(d) for d in array.dims if d in ("chain", "draw"))
        wanted = dimension_names(str(name), array.ndim, group, leading)
        for old, new in zip(array.dims, wanted, strict=True):
            if old != new and old == f"{name}_dim_{array.dims.index(old) - len(leading)}":
                renamed[old] = new
    sizes: dict[Hashable, int] = {}
    for old, new in renamed.items():
        size = dataset.sizes[old]
        if new in dataset.variables or sizes.setdefault(new, size) != size:
            return _with_coordinates(dataset)  # another name would not do: leave them all
    if renamed:
        # Array by array: axes that become one, such as the rows of two variables, are merged.
        arrays = {
            name: a.rename({d: renamed[d] for d in a.dims if d in renamed})
            for name, a in dataset.data_vars.items()
        }
        dataset = xr.Dataset(arrays, attrs=dataset.attrs)
    return _with_coordinates(dataset)


def _with_coordinates(dataset: xr.Dataset) -> xr.Dataset:
    missing = {
        d: np.arange(n)
        for d, n in dataset.sizes.items()
        if d not in dataset.coords and d != "draw" and n <= _MOST_COORDINATES
    }
    return dataset.assign_coords(missing) if missing else dataset
